-- Sets a channel's archive policy. ARGV after the common five: channel, 1, 0 or '' (the default again).
-- Switched off, what the buffer no longer holds is removed, and the rest lives only as long as the buffer.

local channel, value = ARGV[6], ARGV[7]
if value == '' then
  redis.call('HDEL', POLICY, channel .. ':archive')
else
  redis.call('HSET', POLICY, channel .. ':archive', value)
end
if archive_on(channel) then return 0 end
local order = CHAN .. channel
local keep = redis.call('ZREVRANGEBYSCORE', order, '+inf', NOW - LIMITS.buffer_s, 'WITHSCORES', 'LIMIT', 0, LIMITS.n)
for i = 1, #keep, 2 do
  local left_s = LIMITS.buffer_s - math.max(0, NOW - tonumber(keep[i + 1]))
  redis.call('PEXPIRE', MSG .. channel .. ':' .. keep[i], math.max(1, math.floor(left_s * 1000)))
end
local rest = redis.call('ZRANGE', order, 0, redis.call('ZCARD', order) - #keep / 2 - 1)
if #keep == redis.call('ZCARD', order) * 2 then return 0 end
discard(channel, rest)
return #rest
