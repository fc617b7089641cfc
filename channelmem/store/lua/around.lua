-- Messages within some positions of others in their channel's order, each once.
-- ARGV after read.lua's four: channel, positions on either side, number of known ids, these..., ids...
-- Returns rows, except of known ids: reading documents is most of the work.

local channel, radius, known = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local order, view = CHAN .. channel, bound(channel)
local oldest_place = view.capped and redis.call('ZCARD', order) - LIMITS.n or 0
local rows, seen = {}, {}
for i = 8, 7 + known do seen[ARGV[i]] = true end
for i = 8 + known, #ARGV do
  local place = redis.call('ZRANK', order, ARGV[i])
  if place then
    -- The order itself says what is visible, so there is no need to check each of them.
    local first = math.max(0, oldest_place, place - radius)
    local found = redis.call('ZRANGE', order, first, place + radius, 'WITHSCORES')
    for at = 1, #found, 2 do
      local id = found[at]
      if not seen[id] then
        seen[id] = true
        if tonumber(found[at + 1]) >= view.oldest then rows[#rows + 1] = row(channel, id) end
      end
    end
  end
end
return rows
