-- Uses rules, visible.
-- Which of the messages that a search found may be shown, and what lies beside the best of them.
-- ARGV after lib/visible.lua's four: positions on either side, number of best, the found messages, channels... A found message
-- is <number of its channel>:<id>:<author>; all of them are one argument, because hundreds take longer to pass than to
-- read. The best come first. Returns { times, rows }: per found message its exact time (the index rounds it), or false;
-- rows of neighbours that were not found themselves.

local radius, best = tonumber(ARGV[5]), tonumber(ARGV[6])
local found, times, seen, asked = {}, {}, {}, {}
for number, id, author in string.gmatch(ARGV[7], '(%d+):(%d+):(%S+)') do
  local channel = ARGV[7 + tonumber(number)]
  local at = #found + 1
  found[at], times[at] = { channel, id }, false
  seen[channel] = seen[channel] or {}
  seen[channel][id] = true
  if not opted_out(GUILD_ID, author) then
    local some = asked[channel] or { ids = {}, places = {} }
    asked[channel] = some
    some.ids[#some.ids + 1], some.places[#some.places + 1] = id, at
  end
end

-- The same as `visible` for many messages of a channel, in one call.
for channel, some in pairs(asked) do
  local order, view = CHAN .. channel, bound()
  for i, ts in ipairs(redis.call('ZMSCORE', order, unpack(some.ids))) do
    if ts and tonumber(ts) >= view.oldest
        and (not view.capped or redis.call('ZREVRANK', order, some.ids[i]) < LIMITS.n) then
      times[some.places[i]] = ts
    end
  end
end

local rows = {}
for at = 1, math.min(best, #found) do
  if times[at] then beside(found[at][1], found[at][2], radius, seen, rows) end
end
return { times, rows }
