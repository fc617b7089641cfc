-- Shared by the scripts that write what is known of attachments. The `about` of a message with attachments is: revision,
-- name, parent, mentions and right behind them JSON, parents (documents.py). Ids in the JSON are strings.

-- Such an `about` in parts; nil for a message without attachments.
local function opened(about)
  local version, middle, json, tail =
      string.match(about, '^([^\31]*)(\31[^\31]*\31[^\31]*\31[^\31%[]*)(%[[^\31]*)(\31.*)$')
  if not json then return nil end
  return {
    revision = edited(about),
    bytes = tonumber(string.match(version, '~(%d+)') or -1), -- of the content; -1: the whole text
    middle = middle, files = cjson.decode(json), tail = tail,
  }
end

-- The text for the index and the `about` to go with it: what the person wrote, then what is known of the attachments.
-- Message.searchable and to_mark make the same.
local function closed(parts, text)
  local content = string.sub(text, 1, parts.bytes)
  local lines = { content }
  for _, file in ipairs(parts.files) do
    if file.text then lines[#lines + 1] = '[' .. (file.name or 'attachment') .. ': ' .. file.text .. ']' end
  end
  local all, mark = table.concat(lines, '\n'), ''
  if #lines > 1 then mark = '~' .. #content .. '~' .. string.sub(redis.sha1hex(all), 1, 8) end
  local json = string.gsub(cjson.encode(parts.files), '\\/', '/') -- cjson escapes every slash of a URL
  return all, parts.revision .. mark .. parts.middle .. json .. parts.tail
end

-- An edit replaces what the author wrote, and keeps what is known of the attachments that remain.
local function keep_descriptions(m)
  local new = opened(m.about)
  local old = new and opened(redis.call('HGET', MSG .. m.channel .. ':' .. m.id, 'about') or '')
  if not old then return end
  local known = {}
  for _, file in ipairs(old.files) do known[file.id] = file.text end
  if not next(known) then return end
  for _, file in ipairs(new.files) do file.text = file.text or known[file.id] end
  m.text, m.about = closed(new, m.text)
end
