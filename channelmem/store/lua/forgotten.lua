-- Ends a forget job: the person leaves the rosters. ARGV after the common five: '<guild or 0>:<author>'.

local guild, author = string.match(ARGV[6], '^(%d+):(%d+)$')
local guilds = guild == '0' and redis.call('SMEMBERS', GUILDS) or { guild }
for _, one in ipairs(guilds) do
  for _, channel in ipairs(redis.call('SMEMBERS', GUILD .. one)) do redis.call('HDEL', PEOPLE .. channel, author) end
end
return redis.call('SREM', FORGETTING, ARGV[6])
