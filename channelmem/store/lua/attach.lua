-- Uses attachments.
-- Adds files to a stored message that the platform found later: the pictures of link previews. Not an edit: its text,
-- revision and vector stay. ARGV: channel, id, how many files a message may have, the files as JSON. Returns 1 if
-- the message has them now.

local channel, id, most, json = unpack(ARGV)
local key = MSG .. channel .. ':' .. id
local about, text = unpack(redis.call('HMGET', key, 'about', 'text'))
if not about or not redis.call('ZSCORE', CHAN .. channel, id) then return 0 end
local parts = opened(about)
if not parts then
  local middle, tail = string.match(about, '^[^\31]*(\31[^\31]*\31[^\31]*\31[^\31]*)(\31.*)$')
  parts = { revision = edited(about), bytes = -1, middle = middle, files = {}, tail = tail }
end
local known = {}
for _, file in ipairs(parts.files) do known[file.id] = true end
local added = false
for _, file in ipairs(cjson.decode(json)) do
  if not known[file.id] and #parts.files < tonumber(most) then
    parts.files[#parts.files + 1] = file
    known[file.id], added = true, true
  end
end
if added then
  local _, changed = closed(parts, text)
  redis.call('HSET', key, 'about', changed)
end
return 1
