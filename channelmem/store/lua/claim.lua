-- Whose summaries to update next. ARGV: the time, token, ms until the lock expires, seconds to wait after something was
-- removed, and either '' and how many at most, or one channel. Returns the channels that are locked with the token now.
-- A lock that expired was of a process that died: its channel is due again.

local token, lock_ms, debounce_s, wanted, most = unpack(ARGV, 2, 6)

local function lock(channel)
  if not redis.call('SET', LOCK .. channel, token, 'NX', 'PX', lock_ms) then return false end
  redis.call('ZREM', DUE, channel)
  redis.call('SADD', UPDATING, channel)
  return true
end

if wanted ~= '' then return lock(wanted) and { wanted } or {} end
for _, channel in ipairs(redis.call('ZRANGEBYSCORE', DUE, 0, 0)) do
  redis.call('ZADD', DUE, tonumber(ARGV[1]) + tonumber(debounce_s), channel)
end
for _, channel in ipairs(redis.call('SMEMBERS', UPDATING)) do
  if redis.call('EXISTS', LOCK .. channel) == 0 then
    redis.call('SREM', UPDATING, channel)
    redis.call('ZADD', DUE, 'LT', ARGV[1], channel)
  end
end
local taken = {}
local held = redis.call('SCARD', UPDATING) -- these may be due again already, and must not hide the others
for _, channel in ipairs(redis.call('ZRANGEBYSCORE', DUE, '-inf', ARGV[1], 'LIMIT', 0, most + held)) do
  if #taken < tonumber(most) and lock(channel) then taken[#taken + 1] = channel end
end
return taken
