-- Uses rules, refused, sources.
-- Commits what one update of a channel's summaries made, all of it or nothing. ARGV: the time, the limits of its policy,
-- guild, channel, token of the lock, number of summaries to remove, these..., then per summary: id, start, sources,
-- document. The sources of level 1 are messages, '<room>:<id>:<revision>', and behind those of messages that were never
-- stored ':<author>:<time>'; of higher levels, the ids of two summaries. Lower levels come first.
-- Returns 'done', 'lost' (the lock is another's) or 'changed' (a source no longer stands).

local limits, guild, channel, token, gone = limits_of(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
if redis.call('GET', LOCK .. channel) ~= token then return 'lost' end
if not limits.archive then return 'changed' end

local removed, made = {}, {}
for i = 7, 6 + gone do removed[ARGV[i]] = true end

-- A message that is summarised in passing: nothing of it is stored, so what people decided is asked for here.
local cleared = redis.call('HGET', POLICY, channel .. ':cleared')
local floors = redis.call('MGET', FLOOR .. channel, FLOOR .. guild)
local function passing(source)
  local room, id, rev, author, ts = string.match(source, '^(%w+):(%d+):([^:]+):(%d+):(%S+)$')
  local m = { guild = guild, channel = room, author = author, ts = tonumber(ts), rev = tonumber(rev) }
  local switch = redis.call('HGET', THREADS, channel) or channel
  for _, floor in ipairs({ cleared or '-inf', floors[1] or '-inf', floors[2] or '-inf' }) do
    if m.ts <= tonumber(floor) then return nil end
  end
  if opted_out(guild, author) or was_refused(m, switch) then return nil end
  if redis.call('EXISTS', GONE .. room .. ':' .. id) == 1 then return nil end
  return { channel = room, id = id, author = author }
end

-- All messages that a summary was made of; nil if one of them no longer stands.
local function messages_of(given)
  local found = {}
  for source in string.gmatch(given, '%S+') do
    local _, colons = string.gsub(source, ':', ':')
    local known
    if colons > 2 then known = passing(source) else known = standing(guild, source, limits) end
    if not known then return nil end
    found[#found + 1] = known
  end
  return found
end

-- The two summaries below; nil if one of them is not there.
local function parts_of(given)
  local found = {}
  for id in string.gmatch(given, '%S+') do
    local there = made[id] or not removed[id] and redis.call('ZSCORE', SUMMARIES .. channel, id)
    if not there then return nil end
    found[#found + 1] = { channel = channel, id = id }
  end
  return found
end

local todo = {}
for at = 7 + gone, #ARGV, 4 do
  local id, start, given, document = unpack(ARGV, at, at + 3)
  local sources
  if string.sub(id, 1, 2) == '1-' then sources = messages_of(given) else sources = parts_of(given) end
  if not sources or tonumber(start) + limits.summary_s <= NOW then return 'changed' end
  made[id] = true
  todo[#todo + 1] = { id = id, start = start, sources = sources, document = document }
end

local outdated = {}
for id in pairs(removed) do outdated[#outdated + 1] = id end
if gone > 0 then unsummarise(channel, outdated) end
redis.call('ZREMRANGEBYSCORE', SUMMARIES .. channel, '-inf', NOW - limits.summary_s)
for _, one in ipairs(todo) do
  local ends, name = tonumber(one.start) + limits.summary_s, 'summary/' .. channel .. ':' .. one.id
  redis.call('JSON.SET', SUMMARY .. channel .. ':' .. one.id, '$', one.document)
  redis.call('PEXPIRE', SUMMARY .. channel .. ':' .. one.id, math.max(1, math.floor((ends - NOW) * 1000)))
  redis.call('ZADD', SUMMARIES .. channel, one.start, one.id)
  keep_until(SUMMARIES .. channel, ends)
  for _, source in ipairs(one.sources) do note(name, source.channel, source.id, source.author, ends) end
end
-- What named summaries that have expired goes some day, too: more of it is checked than was added.
local added = 0
for _, one in ipairs(todo) do added = added + #one.sources end
for _, id in ipairs(added > 0 and redis.call('HRANDFIELD', INTO .. channel, 64 + 2 * added) or {}) do
  if #standing_names(channel, id) == 0 then redis.call('HDEL', INTO .. channel, id) end
end
if #todo > 0 then
  redis.call('SADD', GUILD .. guild, channel) -- a guild that is left finds the summaries of a channel without messages
  redis.call('SADD', GUILDS, guild)
end
return 'done'
