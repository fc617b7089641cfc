-- Shared by the scripts that add a description or transcript to its message. Not an edit: revision, time and expiry
-- stay. The old vector goes, and the message waits for one of the new text.

-- A message that may carry what is known of its attachments, in parts (lib/attachments.lua); nil if it is not to be shown,
-- or its channel is paused.
local function describable(guild, channel, id, limits)
  local paused = redis.call('HGET', POLICY, channel .. ':paused')
  local ts = redis.call('ZSCORE', CHAN .. channel, id)
  if not ts or tonumber(ts) < NOW - limits.life_s or paused then return nil end
  local author, about = unpack(redis.call('HMGET', MSG .. channel .. ':' .. id, 'author', 'about'))
  if not about or opted_out(guild, author) then return nil end
  return opened(about)
end

local function file_of(parts, attachment)
  for _, one in ipairs(parts and parts.files or {}) do
    if one.id == attachment then return one end
  end
end

local function enrich(channel, id, parts, file, text)
  if file.text == text then return end
  file.text = text
  local name = channel .. ':' .. id
  local key = MSG .. name
  local all, about = closed(parts, redis.call('HGET', key, 'text'))
  redis.call('SADD', WAIT .. channel, id) -- first, because it needs memory: a full Redis then rejects all of it
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, 3) == 'vec' then redis.call('HDEL', key, field) end
  end
  redis.call('HSET', key, 'text', all, 'about', about)
  redis.call('XADD', INGEST, '*', 'm', name, 'r', revision(about))
end
