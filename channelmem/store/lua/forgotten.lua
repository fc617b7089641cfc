-- Uses jobs, refused.
-- Finishes a forget job: if the author wants that and nothing else of theirs is being removed, they are opted in again
-- from now on. ARGV: the time, how long refused windows are kept (s), '<guild or *>:<author>'.
-- Another process may have finished it already, and the author may be back by now.

if redis.call('SREM', FORGETTING, ARGV[3]) == 0 then return 0 end
local author = string.match(ARGV[3], '%d+$')
if #jobs_of(author) == 0 then
  for _, member in ipairs(wishes_of(author)) do
    end_optout(member, ARGV[1], tonumber(ARGV[1]) - tonumber(ARGV[2]))
  end
end
return 1
