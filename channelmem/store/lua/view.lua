-- Uses rules, visible.
-- Newest first, straight from the channels' order: no index, so it sees what was stored a moment ago.
-- ARGV after lib/visible.lua's four: limit, window start, window end, 1 to include flagged messages, number of authors,
-- authors..., channels... Returns { visible messages, oldest ts, rows, newest change } where a row is { channel, id, fields }.

local limit, first, last, flagged = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'
local authors, some = {}, tonumber(ARGV[9])
for i = 10, 9 + some do authors[ARGV[i]] = true end
local rows, total, oldest = {}, 0, nil

local function wanted(doc)
  return (flagged or not doc[4]) and (some == 0 or authors[doc[1]])
end

local function take(channel, page)
  local taken = 0
  for i = 1, #page, 2 do
    local ts = tonumber(page[i + 1])
    if ts >= first and ts <= last then
      local found = row(channel, page[i])
      if found and wanted(found[3]) then
        rows[#rows + 1] = found
        taken = taken + 1
      end
    end
    if taken >= limit then break end
  end
  return taken
end

for i = 10 + some, #ARGV do
  local channel = ARGV[i]
  local view, order = bound(), CHAN .. channel
  local inside = redis.call('ZCOUNT', order, view.oldest, '+inf')
  if view.capped then
    local page = redis.call('ZREVRANGEBYSCORE', order, '+inf', view.oldest, 'WITHSCORES', 'LIMIT', 0, LIMITS.n)
    take(channel, page)
    inside = math.min(inside, LIMITS.n)
    if #page > 0 then oldest = math.min(oldest or math.huge, tonumber(page[#page])) end
  else
    local from = math.max(view.oldest, first)
    local left, at = limit, 0
    repeat
      local page = redis.call('ZREVRANGEBYSCORE', order, last, from, 'WITHSCORES', 'LIMIT', at, 100)
      left, at = left - take(channel, page), at + 100
    until #page < 200 or left <= 0 or at >= 5000
    local page = redis.call('ZRANGEBYSCORE', order, view.oldest, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if #page > 0 then oldest = math.min(oldest or math.huge, tonumber(page[2])) end
  end
  total = total + inside
end
return { total, oldest and string.format('%.17g', oldest) or false, rows, newest_change() }
