-- Uses descriptions.
-- Notes why a reader failed on an attachment, and ends the claim. ARGV: room, key, token, reader, why, for how long in ms
-- (0: only ends the claim).

local channel, key, token, reader, why, hold_ms = unpack(ARGV)
unlock(channel, key, token)
if hold_ms ~= '0' then redis.call('SET', failure_of(channel, key, reader), why, 'PX', hold_ms) end
return 1
