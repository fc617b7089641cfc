-- Finishes a forget job: the author leaves the rosters and, if they want that and nothing else of theirs is being
-- removed, is opted in again from now on. ARGV: the time, how long refused windows are kept (s), '<guild or *>:<author>'.
-- Another process may have finished it already, and the author may be back by now.

if redis.call('SREM', FORGETTING, ARGV[3]) == 0 then return 0 end
local guild, author = string.match(ARGV[3], '^([%d*]+):(%d+)$')
local guilds = guild == '*' and redis.call('SMEMBERS', GUILDS) or { guild }
for _, one in ipairs(guilds) do
  for _, channel in ipairs(redis.call('SMEMBERS', GUILD .. one)) do redis.call('HDEL', PEOPLE .. channel, author) end
end
if #jobs_of(author) == 0 then
  for _, member in ipairs(wishes_of(author)) do
    end_optout(member, ARGV[1], tonumber(ARGV[1]) - tonumber(ARGV[2]))
  end
end
return 1
