-- Notes to which channels threads belong. ARGV: pairs of a thread's room and its channel's room.

for i = 1, #ARGV, 2 do
  if redis.call('HSET', THREADS, ARGV[i], ARGV[i + 1]) == 1 then announce('thread:' .. ARGV[i]) end
end
return 1
