-- Uses announcements.
-- Notes to which channels threads belong, once and for all. ARGV: pairs of a thread's room and its channel's room. Returns
-- the channels' rooms as they are noted now.

local noted = {}
for i = 1, #ARGV, 2 do
  if redis.call('HSETNX', THREADS, ARGV[i], ARGV[i + 1]) == 1 then announce('thread:' .. ARGV[i]) end
  noted[#noted + 1] = redis.call('HGET', THREADS, ARGV[i])
end
return noted
