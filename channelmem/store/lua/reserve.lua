-- Sets money aside for a call of a language model, unless the day's cap leaves no room for it.
-- ARGV: day, room, micro-dollars, the cap in micro-dollars, seconds that the day's page is kept.

local page, room, amount = SPEND .. ARGV[1], ARGV[2], tonumber(ARGV[3])
if tonumber(redis.call('HGET', page, '*') or 0) + amount > tonumber(ARGV[4]) then return 0 end
redis.call('HINCRBY', page, '*', ARGV[3])
redis.call('HINCRBY', page, room, ARGV[3])
redis.call('EXPIRE', page, ARGV[5])
return 1
