-- Adds a description or transcript of an attachment to its message. ARGV: the time, the limits of the channel's policy,
-- guild, channel, id, attachment, text. Not an edit: revision, time and expiry stay. The old vector goes, and the
-- message waits for one of the new text. Returns 1 if the message carries the text now, 0 if there is no such message
-- or attachment to show.

local limits, guild, channel, id, attachment, text = limits_of(ARGV[2]), unpack(ARGV, 3, 7)
local name = channel .. ':' .. id
local key = MSG .. name

local function described()
  local paused, own_archive = unpack(redis.call('HMGET', POLICY, channel .. ':paused', channel .. ':archive'))
  local life_s = has_archive(own_archive, limits) and limits.archive_s or limits.buffer_s
  local ts = redis.call('ZSCORE', CHAN .. channel, id)
  if not ts or tonumber(ts) < NOW - life_s or paused then return nil end
  local author, about = unpack(redis.call('HMGET', key, 'author', 'about'))
  if not about or opted_out(guild, author) then return nil end
  return opened(about)
end

local parts, file = described(), nil
for _, one in ipairs(parts and parts.files or {}) do
  if one.id == attachment then file = one end
end
if not file then return 0 end
if file.text == text then return 1 end
file.text = text
local all, about = closed(parts, redis.call('HGET', key, 'text'))
redis.call('SADD', WAIT .. channel, id) -- first, because it needs memory: a full Redis then rejects all of it
for _, field in ipairs(redis.call('HKEYS', key)) do
  if string.sub(field, 1, 3) == 'vec' then redis.call('HDEL', key, field) end
end
redis.call('HSET', key, 'text', all, 'about', about)
redis.call('XADD', INGEST, '*', 'm', name, 'r', revision(about))
return 1
