-- Uses refused, announcements.
-- Changes what is set at a place. ARGV: the time, how long windows are kept (s), place, room ('' if it is no channel),
-- who, then pairs of a setting and its JSON ('' clears it); a single '*' clears all. Returns triples: setting, old, new
-- ('' where nothing is set), one for each setting that changed.

local now, oldest, place, room, by = ARGV[1], tonumber(ARGV[1]) - tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local KEPT = 20 -- changes
local key = SETTINGS .. place
redis.call('JSON.SET', key, '$', '{"values":{},"changes":[],"at":{}}', 'NX')
-- Somebody may have changed the document by hand.
for part, empty in pairs({ values = { 'object', '{}' }, changes = { 'array', '[]' }, at = { 'object', '{}' } }) do
  if (redis.call('JSON.TYPE', key, '$.' .. part) or {})[1] ~= empty[1] then
    redis.call('JSON.SET', key, '$.' .. part, empty[2])
  end
end

local function value_of(name)
  return string.match(redis.call('JSON.GET', key, '$.values.' .. name) or '[]', '^%[(.*)%]$')
end

-- What was set under a former name (FORMER in cascade.py) stays set.
for former, name in pairs({ max_messages = 'context_messages', max_age = 'context_max_age' }) do
  local held = value_of(former)
  if held ~= '' then
    if value_of(name) == '' then redis.call('JSON.SET', key, '$.values.' .. name, held) end
    redis.call('JSON.DEL', key, '$.values.' .. former)
  end
end

local pairs_ = { unpack(ARGV, 6) }
if pairs_[1] == '*' then
  pairs_ = {}
  for _, name in ipairs(redis.call('JSON.OBJKEYS', key, '$.values')[1] or {}) do
    pairs_[#pairs_ + 1] = name
    pairs_[#pairs_ + 1] = ''
  end
end

local changed = {}
local function change(name, new)
  local old = value_of(name)
  if old == new then return end
  if new == '' then
    redis.call('JSON.DEL', key, '$.values.' .. name)
  else
    redis.call('JSON.SET', key, '$.values.' .. name, new)
  end
  redis.call('JSON.SET', key, '$.at.' .. name, now)
  local noted = string.format(
    '{"at":%s,"by":"%s","setting":"%s","old":%s,"new":%s}',
    now, by, name, old == '' and 'null' or old, new == '' and 'null' or new
  )
  redis.call('JSON.ARRINSERT', key, '$.changes', 0, noted)
  for _, one in ipairs({ name, old, new }) do changed[#changed + 1] = one end
end

for i = 1, #pairs_, 2 do change(pairs_[i], pairs_[i + 1]) end
redis.call('JSON.ARRTRIM', key, '$.changes', 0, KEPT - 1)

-- What is said while a channel is off is refused for good: back-fill must not bring it later.
if room ~= '' then
  local was, is = redis.call('HGET', POLICY, room .. ':off'), value_of('enabled') == 'false'
  if is and not was then
    redis.call('HSET', POLICY, room .. ':off', now)
    begin_window('off:' .. room, now, oldest)
  elseif was and not is then
    redis.call('HDEL', POLICY, room .. ':off')
    end_window('off:' .. room, was, now, oldest)
  end
end
announce(place)
return changed
