-- Sets a channel's archive policy. ARGV after the common five: channel, 1, 0 or '' (the default again).
-- Switched on or off, what the buffer no longer holds is removed (without an archive its documents expire), and the rest
-- lives as long as the channel now keeps its messages. Returns how many were removed.

local channel, value = ARGV[6], ARGV[7]
local before = archive_on(channel)
redis.call('HDEL', POLICY, channel .. ':archive') -- first, since it takes no memory: so a full Redis lets the rest pass
if value ~= '' then redis.call('HSET', POLICY, channel .. ':archive', value) end
local now = archive_on(channel)
if before and now then return 0 end
local life_s = now and LIMITS.archive_s or LIMITS.buffer_s
local order = CHAN .. channel
local keep = redis.call('ZREVRANGEBYSCORE', order, '+inf', NOW - LIMITS.buffer_s, 'WITHSCORES', 'LIMIT', 0, LIMITS.n)
for i = 1, #keep, 2 do
  redis.call('PEXPIRE', MSG .. channel .. ':' .. keep[i], ttl_ms(tonumber(keep[i + 1]), keep[i], life_s))
end
prolong(channel, life_s)
redis.call('PEXPIRE', PEOPLE .. channel, math.floor(life_s * 1000))
local over = redis.call('ZCARD', order) - #keep / 2
if over == 0 then return 0 end
local rest = redis.call('ZRANGE', order, 0, over - 1)
discard(channel, rest)
return #rest
