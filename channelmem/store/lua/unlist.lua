-- Takes an author who is being forgotten out of rosters. ARGV: '<guild or *>:<author>', channels...

if redis.call('SISMEMBER', FORGETTING, ARGV[1]) == 0 then return 0 end -- finished; they may be back by now
local author = string.match(ARGV[1], '%d+$')
for i = 2, #ARGV do redis.call('HDEL', PEOPLE .. ARGV[i], author) end
return 1
