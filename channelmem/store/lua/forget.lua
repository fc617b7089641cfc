-- Uses jobs, timer.
-- Removes messages of one author, a page at a time. ARGV: kind, '<guild or *>:<author>', then by kind:
--   find   how many -> names of messages; nil if the job is finished, because what the author wrote since then must stay
--   remove milliseconds, names... -> how many of these were removed before the time was over
-- Finding costs the same for one message as for a page, since RediSearch scores all messages of the author.

local kind, job = ARGV[1], ARGV[2]
if redis.call('SISMEMBER', FORGETTING, job) == 0 then return false end

if kind == 'find' then
  local query = query_of(job)
  if not query then return {} end
  -- Not FT.AGGREGATE, which does not name messages that have expired and are still there. And without a limit on its
  -- time: a search that is cut off names fewer, and nothing of theirs may be left.
  local reply = redis.call('FT.SEARCH', IDX, query, 'NOCONTENT', 'LIMIT', 0, ARGV[3], 'TIMEOUT', 0, 'DIALECT', 2)
  local names = {}
  for i = 2, #reply do names[i - 1] = string.sub(reply[i], #MSG + 1) end
  return names
end

local in_time, removed = timer(ARGV[3]), 0
for i = 4, #ARGV do
  local channel, id = string.match(ARGV[i], '^(%w+):(%d+)$')
  if channel then discard(channel, { id }) end
  removed = removed + 1
  if not in_time() then break end
end
return removed
