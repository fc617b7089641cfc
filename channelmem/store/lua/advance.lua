-- Notes how far a load has come, unless it was ended meanwhile. ARGV: guild, channel, the load.

if redis.call('HEXISTS', LOADING .. ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('HSET', LOADING .. ARGV[1], ARGV[2], ARGV[3])
return 1
