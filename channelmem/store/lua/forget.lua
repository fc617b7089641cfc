-- Removes a few messages of one author. ARGV: how many, '<guild or *>:<author>'.
-- Returns 0 if nothing is left, or if the job is finished, because what the author wrote since then must stay. An index
-- that still reads documents cannot tell. It is asked here, because later it may have found some that were missed.

if redis.call('SISMEMBER', FORGETTING, ARGV[2]) == 0 then return 0 end
local query = query_of(ARGV[2])
if not query then return 0 end
-- Not FT.SEARCH, which scores all messages of the author before it returns these few.
local reply = redis.call('FT.AGGREGATE', IDX, query, 'LOAD', 1, '@__key', 'LIMIT', 0, ARGV[1], 'DIALECT', 2)
local removed = 0
local function remove(key)
  local channel, id = string.match(string.sub(key or '', #MSG + 1), '^(%w+):(%d+)$')
  if channel then
    removed = removed + redis.call('EXISTS', key)
    discard(channel, { id })
  end
end
for i = 2, #reply do
  if reply[i] then remove(reply[i][2]) end
end
if removed == 0 and #reply > 1 then -- all of these have expired, but Redis still holds them: only FT.SEARCH names them
  local found = redis.call('FT.SEARCH', IDX, query, 'NOCONTENT', 'LIMIT', 0, ARGV[1], 'DIALECT', 2)
  for i = 2, #found do remove(found[i]) end
  removed = found[1] - left_of({ ARGV[2] })
end
return removed > 0 and removed or unread()
