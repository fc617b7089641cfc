-- Uses rules.
-- What there is to summarise in a channel: a page of its messages. ARGV: the time, the limits of its policy, guild, channel,
-- how many messages to skip, how many to look at. Returns how many it looked at, the ids of all summaries, and the times
-- of the messages on the page that no summary of theirs has: stored since, edited, or their summary was removed.

local limits, guild, channel, skip, most = limits_of(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if not limits.archive then return { 0, {}, {} } end
local order, into = CHAN .. channel, INTO .. channel
local page = redis.call('ZRANGEBYSCORE', order, NOW - limits.archive_s, '+inf', 'WITHSCORES', 'LIMIT', skip, most)

-- By its span: a message may also have been shown to the summariser of the window after its own.
local stands = {}
local function summarised(names, ts)
  for id, first, last in string.gmatch(names or '', 'summary/%w+:(1%-(%d+)%-(%d+))') do
    if stands[id] == nil then stands[id] = redis.call('ZSCORE', SUMMARIES .. channel, id) and true or false end
    if stands[id] and ts * 1000 > first - 1 and ts * 1000 < last + 1 then return true end
  end
  return false
end

local function is_told(id)
  local author, flag, about = unpack(redis.call('HMGET', MSG .. channel .. ':' .. id, 'author', 'flag', 'about'))
  return about and flag ~= 'own' and not opted_out(guild, author)
end

local left = {}
for i = 1, #page, 1000 do
  local ids = {}
  for at = i, math.min(i + 999, #page), 2 do ids[#ids + 1] = page[at] end
  local names = redis.call('HMGET', into, unpack(ids))
  for at, id in ipairs(ids) do
    local ts = page[i + 2 * at - 1]
    if not summarised(names[at], tonumber(ts)) and is_told(id) then left[#left + 1] = ts end
  end
end
local oldest = NOW - limits.summary_s
return { #page / 2, redis.call('ZRANGEBYSCORE', SUMMARIES .. channel, oldest, '+inf'), left }
