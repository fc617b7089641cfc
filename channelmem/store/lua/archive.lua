-- Sets a channel's archive switch. ARGV: the time, the limits of its policy, channel, 1, 0 or '' (as the policy says).
-- When that turns the archive on or off, messages outside the buffer are removed (without an archive, their documents
-- expire), and the rest lives as long as the channel now keeps its messages. Without an archive there are no summaries.
-- Returns how many messages were removed.

local limits, channel, value = limits_of(ARGV[2]), ARGV[3], ARGV[4]
local switch = channel .. ':archive'
local before = has_archive(redis.call('HGET', POLICY, switch), limits)
redis.call('HDEL', POLICY, switch) -- first, because it needs no memory: a full Redis then lets the rest pass
if value ~= '' then redis.call('HSET', POLICY, switch, value) end
local after = has_archive(redis.call('HGET', POLICY, switch), limits)
if before and after then return 0 end
if not after then unsummarise_all(channel) end
local life_s = after and limits.archive_s or limits.buffer_s
local order = CHAN .. channel
local keep = redis.call('ZREVRANGEBYSCORE', order, '+inf', NOW - limits.buffer_s, 'WITHSCORES', 'LIMIT', 0, limits.n)
for i = 1, #keep, 2 do
  local key, ms = MSG .. channel .. ':' .. keep[i], ttl_ms(tonumber(keep[i + 1]), keep[i], life_s)
  -- An answer never outlives what it quotes.
  if redis.call('HEXISTS', key, 'from') == 1 then
    redis.call('PEXPIRE', key, ms, 'LT')
  else
    redis.call('PEXPIRE', key, ms)
  end
end
prolong(channel, life_s)
redis.call('PEXPIRE', PEOPLE .. channel, math.floor(life_s * 1000))
local over = redis.call('ZCARD', order) - #keep / 2
if over == 0 then return 0 end
local rest = redis.call('ZRANGE', order, 0, over - 1)
discard(channel, rest)
return #rest
