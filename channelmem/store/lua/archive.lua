-- Uses rules.
-- Brings what a channel holds in line with its policy. ARGV: the time, the limits of its policy, channel.
-- With an archive, or while switching it off can be undone, the messages of the buffer live as long as the archive keeps
-- them. Without one, messages outside the buffer are removed, and summaries; the rest lives as long as the buffer. What
-- was made of hidden messages goes in either case, but for summaries. Returns how many messages were removed.

local limits, channel = limits_of(ARGV[2]), ARGV[3]
if not limits.kept then unsummarise_all(channel) end
local order = CHAN .. channel
local keep = redis.call('ZREVRANGEBYSCORE', order, '+inf', NOW - limits.buffer_s, 'WITHSCORES', 'LIMIT', 0, limits.n)
for i = 1, #keep, 2 do
  local key, ms = MSG .. channel .. ':' .. keep[i], ttl_ms(tonumber(keep[i + 1]), keep[i], limits.life_s)
  -- An answer never outlives what it quotes.
  if redis.call('HEXISTS', key, 'from') == 1 then
    redis.call('PEXPIRE', key, ms, 'LT')
  else
    redis.call('PEXPIRE', key, ms)
  end
end
prolong(channel, limits.life_s)
redis.call('PEXPIRE', PEOPLE .. channel, math.floor(limits.life_s * 1000))
if limits.archive then return 0 end
local over = redis.call('ZCARD', order) - #keep / 2
if over == 0 then return 0 end
local rest = redis.call('ZRANGE', order, 0, over - 1)
if limits.kept then
  take_along(channel, rest, 'expired')
  return 0
end
discard(channel, rest)
return #rest
