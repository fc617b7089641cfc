-- Keeps the turn to rebuild the index, or gives it back. ARGV: token, ms until it expires (0 to give it back).
-- Returns 0 if it is another's by now.

if redis.call('GET', REBUILDING) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', REBUILDING) end
return redis.call('PEXPIRE', REBUILDING, ARGV[2])
