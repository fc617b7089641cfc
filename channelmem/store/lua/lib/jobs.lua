-- Shared by the scripts around "forget me". A job is '<guild or *>:<author>'.

local function jobs_of(author)
  local jobs = {}
  for _, job in ipairs(redis.call('SMEMBERS', FORGETTING)) do
    if string.match(job, ':(%d+)$') == author then jobs[#jobs + 1] = job end
  end
  return jobs
end

-- What finds the messages of a job; nil if its guild holds none, or the bucket was never created.
local function query_of(job)
  if redis.call('EXISTS', META) == 0 then return nil end
  local guild, author = string.match(job, '^([%d*]+):(%d+)$')
  local query = '@author:{' .. author .. '}'
  if guild == '*' then return query end
  local tags = {}
  for _, channel in ipairs(redis.call('SMEMBERS', GUILD .. guild)) do tags[#tags + 1] = tag(channel) end
  return #tags > 0 and query .. ' @channel:{' .. table.concat(tags, '|') .. '}' or nil
end

-- How the opt-outs name an author who wants to be back: everywhere, or in a guild.
local function wishes_of(author)
  local wishes = {}
  for _, member in ipairs(redis.call('SMEMBERS', RETURNING)) do
    if string.match(member, '(%d+)$') == author then wishes[#wishes + 1] = member end
  end
  return wishes
end

local function left_of(jobs)
  local left = 0
  for _, job in ipairs(jobs) do
    local query = query_of(job)
    if query then
      left = left + redis.call('FT.SEARCH', IDX, query, 'NOCONTENT', 'LIMIT', 0, 0, 'TIMEOUT', 0, 'DIALECT', 2)[1]
    end
  end
  return left
end
