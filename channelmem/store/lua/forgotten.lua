-- Ends a forget job: the person leaves the rosters. ARGV after the common five: '<guild or *>:<author>'.
-- Somebody else may have ended it, and the person may be back by now.

if redis.call('SREM', FORGETTING, ARGV[6]) == 0 then return 0 end
local guild, author = string.match(ARGV[6], '^([%d*]+):(%d+)$')
local guilds = guild == '*' and redis.call('SMEMBERS', GUILDS) or { guild }
for _, one in ipairs(guilds) do
  for _, channel in ipairs(redis.call('SMEMBERS', GUILD .. one)) do redis.call('HDEL', PEOPLE .. channel, author) end
end
return 1
