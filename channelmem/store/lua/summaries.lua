-- Uses rules.
-- The summaries of a channel, or some of them. ARGV: the time, the limits of its policy, channel, then either 'from', the
-- earliest start, or 'ids' and ids... Returns documents, the earliest start first.

local limits, channel, kind = limits_of(ARGV[2]), ARGV[3], ARGV[4]
if not limits.archive then return {} end
local oldest = NOW - limits.summary_s
local ids = {}
if kind == 'from' then
  ids = redis.call('ZRANGEBYSCORE', SUMMARIES .. channel, math.max(oldest, tonumber(ARGV[5])), '+inf')
else
  for at = 5, #ARGV do
    local start = tonumber(redis.call('ZSCORE', SUMMARIES .. channel, ARGV[at]) or '-inf')
    if start >= oldest then ids[#ids + 1] = ARGV[at] end
  end
end
local found = {}
for i = 1, #ids, 1000 do
  local keys = {}
  for at = i, math.min(i + 999, #ids) do keys[#keys + 1] = SUMMARY .. channel .. ':' .. ids[at] end
  keys[#keys + 1] = '.'
  for _, document in ipairs(redis.call('JSON.MGET', unpack(keys))) do
    if document then found[#found + 1] = document end
  end
end
return found
