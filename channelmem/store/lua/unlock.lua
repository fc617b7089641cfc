-- Keeps a lock, or gives it back. ARGV: channel, token, then either 'keep' and ms until it expires, or 'free' and when the
-- channel is due next ('' for not until its next message). Returns 0 if it is another's by now.

local channel, token, kind, value = unpack(ARGV)
if redis.call('GET', LOCK .. channel) ~= token then return 0 end
if kind == 'keep' then return redis.call('PEXPIRE', LOCK .. channel, value) end
redis.call('DEL', LOCK .. channel)
redis.call('SREM', UPDATING, channel)
if value ~= '' then redis.call('ZADD', DUE, 'LT', value, channel) end
return 1
