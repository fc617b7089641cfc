-- Messages within some positions of others in their channel's order, each once.
-- ARGV after read.lua's eight: channel, positions before, positions after, ids... Returns rows.

local channel, before, after = ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[11])
local rows, seen = {}, {}
for i = 12, #ARGV do
  local place = redis.call('ZRANK', CHAN .. channel, ARGV[i])
  if place then
    for _, id in ipairs(redis.call('ZRANGE', CHAN .. channel, math.max(0, place - before), place + after)) do
      if not seen[id] then
        seen[id] = true
        if visible(channel, id) then rows[#rows + 1] = row(channel, id) end
      end
    end
  end
end
return rows
