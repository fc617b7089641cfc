-- Removes a few messages of one author. ARGV: how many, '<guild or *>:<author>'.
-- Returns how many were removed; 0 if the job is finished, because what the author wrote since then must stay.

if redis.call('SISMEMBER', FORGETTING, ARGV[2]) == 0 then return 0 end
local guild, author = string.match(ARGV[2], '^([%d*]+):(%d+)$')
local query = '@author:{' .. author .. '}'
if guild ~= '*' then
  local tags = {}
  for _, channel in ipairs(redis.call('SMEMBERS', GUILD .. guild)) do tags[#tags + 1] = tag(channel) end
  if #tags == 0 then return 0 end
  query = query .. ' @channel:{' .. table.concat(tags, '|') .. '}'
end
local reply = redis.call('FT.SEARCH', IDX, query, 'NOCONTENT', 'LIMIT', 0, ARGV[1], 'DIALECT', 2)
local removed = 0
for i = 2, #reply do
  local channel, id = string.match(string.sub(reply[i], #MSG + 1), '^(%w+):(%d+)$')
  removed = removed + redis.call('EXISTS', reply[i])
  discard(channel, { id })
end
return removed
