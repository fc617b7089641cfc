-- Uses rules, attachments, refused, decisions, sources.
-- Applies a batch of events in order. ARGV: the time, tombstone ms, seconds per summary, seconds until a closed window is
-- summarised, then per event: kind, count, values.
-- Returns whether the meta key exists (if it is lost, so is everything else), whether there is something to drain now,
-- then one number per event.
-- Every removal begins with a write that needs no memory: a full Redis then lets the script finish.

local TOMBSTONE_MS, WINDOW_S, DEBOUNCE_S = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- What applies to a channel, read once per batch: each redis.call costs as much as a small command. A clear within the
-- batch changes it, so it is then read again.
local rooms = {}
local function open_room(channel)
  local channel_of = redis.call('HGET', THREADS, channel) or channel -- a thread follows its channel
  local paused, own_off, off = unpack(
    redis.call('HMGET', POLICY, channel .. ':paused', channel .. ':off', channel_of .. ':off')
  )
  -- The floor of a guild that was left applies even to channels that were unknown then.
  local own, left = unpack(redis.call('MGET', FLOOR .. channel, FLOOR .. string.match(channel, '^%d+')))
  local room = {
    tag = tag(channel),
    closed = paused or own_off or off,
    channel = channel_of,
    floor = math.max(tonumber(own or '-inf'), tonumber(left or '-inf')),
    listed = false, -- in the list of its guild
    people = {}, -- author -> { ts, value }: the last time they spoke, written once at the end
  }
  rooms[channel] = room
  return room
end

-- The channel under the limits of the current message, which come with its policy.
local function room_of(channel, limits)
  local room = rooms[channel] or open_room(channel)
  if room.limits ~= limits then
    room.limits = limits
    room.life_s = limits.life_s
    room.tidy = false -- true once nothing is left that has outlived the channel's lifetime
  end
  return room
end

local function remember_person(m, room)
  if m.flag == 'own' then return end
  local known = room.people[m.author]
  if not known then
    local stored = redis.call('HGET', PEOPLE .. m.channel, m.author)
    known = { tonumber(stored and string.match(stored, '^[^\31]+')) }
    room.people[m.author] = known
  end
  -- Talking to the bot is not talking to the channel: "catch me up" counts from the last message to people.
  if known[1] and (m.flag ~= '' or known[1] > m.ts) then return end
  known[1], known[2] = m.ts, m.ts_text .. '\31' .. m.person
end

local function write_people(channel, room)
  local roster = {}
  for author, seen in pairs(room.people) do
    if seen[2] then
      roster[#roster + 1] = author
      roster[#roster + 1] = seen[2]
    end
  end
  if #roster == 0 then return end
  redis.call('HSET', PEOPLE .. channel, unpack(roster))
  redis.call('PEXPIRE', PEOPLE .. channel, math.floor(room.life_s * 1000))
end

local function revision_of(channel, id)
  if not redis.call('ZSCORE', CHAN .. channel, id) then return nil end
  local about = redis.call('HGET', MSG .. channel .. ':' .. id, 'about')
  return about and (tonumber(edited(about)) or 0)
end

-- A summary knows messages that Redis no longer holds: once they are edited, it may not go on with their former words.
local function outdate_summary(m)
  if m.rev == 0 or redis.call('EXISTS', SUMMARIES .. m.channel) == 0 then return end
  for name in string.gmatch(redis.call('HGET', INTO .. m.channel, m.id) or '', 'summary/(%S+)') do
    local known = redis.call('JSON.GET', SUMMARY .. name, '$.messages[*]')
    for _, one in ipairs(known and cjson.decode(known) or {}) do
      if one.id == string.gsub(m.id, '^0+', '') and tonumber(one.revision) < m.rev then
        take_along(m.channel, { m.id })
        return
      end
    end
  end
end

-- Nothing older than this revision is stored for a while.
local function outlive(m)
  local key = GONE .. m.channel .. ':' .. m.id
  local gone = redis.call('GET', key)
  if gone and (gone == 'inf' or tonumber(gone) >= m.rev) then return end
  redis.pcall('SET', key, edited(m.about), 'PX', TOMBSTONE_MS) -- a full Redis refuses it, and lets the rest pass
end

local function refused(m, room)
  if m.ts < NOW - room.life_s then
    outdate_summary(m)
    return true
  end
  if opted_out(m.guild, m.author) or room.closed or was_refused(m, room.channel) then
    -- The new text must not be stored, and the old one is no longer what the message says: not now, and not if it comes
    -- after its edit, as from a client that sends edits ahead of what waits.
    local known = revision_of(m.channel, m.id)
    if known and m.rev > known then discard(m.channel, { m.id }) end
    if m.rev > (known or 0) then outlive(m) end
    return true
  end
  if m.ts <= room.floor then return true end
  local gone = redis.call('GET', GONE .. m.channel .. ':' .. m.id)
  return gone and (gone == 'inf' or m.rev <= tonumber(gone))
end

-- Makes room for a message; returns true if the message itself has to go.
local function prune(m, room)
  local order, ids, itself = CHAN .. m.channel, {}, false
  if not room.tidy then
    ids = redis.call('ZRANGEBYSCORE', order, '-inf', string.format('(%.17g', NOW - room.life_s), 'LIMIT', 0, DIRECT)
    room.tidy = #ids < DIRECT
  end
  if not room.limits.kept then
    local over = redis.call('ZCARD', order) - room.limits.n
    if over > #ids then ids = redis.call('ZRANGE', order, 0, over - 1) end
    for _, id in ipairs(ids) do itself = itself or id == m.id end
  end
  if #ids > 0 then discard(m.channel, ids, 'expired') end
  return itself
end

local grown = {} -- guilds whose list has a new channel

local function write(m, room, sources)
  local key = MSG .. m.channel .. ':' .. m.id
  -- A leftover or an older revision goes entirely: none of its fields may survive, least of all its vector.
  redis.call('DEL', key)
  local doc = { 'channel', room.tag, 'author', m.author, 'text', m.text, 'ts', m.ts_text, 'about', m.about }
  if m.flag ~= '' then
    doc[#doc + 1] = 'flag'
    doc[#doc + 1] = m.flag
  end
  redis.call('HSET', key, unpack(doc))
  redis.call('PEXPIRE', key, ttl_ms(m.ts, m.id, room.life_s))
  if next(sources) then tie('answer/' .. m.channel .. ':' .. m.id, key, sources) end
  redis.call('SADD', WAIT .. m.channel, m.id)
  redis.call('XADD', INGEST, '*', 'm', m.channel .. ':' .. m.id, 'r', revision(m.about))
  if not room.listed then
    if redis.call('SADD', GUILD .. m.guild, m.channel) == 1 then grown[m.guild] = true end
    redis.call('SADD', GUILDS, m.guild)
    room.listed = true
  end
  local closes = (math.floor(m.ts / WINDOW_S) + 1) * WINDOW_S
  room.due = math.min(room.due or math.huge, math.max(NOW, closes) + DEBOUNCE_S)
  remember_person(m, room)
end

-- What the bot's answer was made of: nothing for most messages. A later revision was made of the same, whatever it says.
local function own_sources(m, given, limits)
  local before = m.flag == 'own' and redis.call('HGET', MSG .. m.channel .. ':' .. m.id, 'from')
  if not given and not before then return {} end
  return sources_of(m.guild, (given or '') .. ' ' .. (before or ''), limits)
end

local function add(guild, channel, id, author, text, ts, flag, about, person, limits, given)
  local m = {
    guild = guild, channel = channel, id = id, author = author, text = text, flag = flag, about = about,
    person = person, ts = tonumber(ts), ts_text = ts, rev = tonumber(edited(about)) or 0,
  }
  local room = room_of(channel, limits_of(limits))
  if refused(m, room) then return 0 end
  if redis.call('ZADD', CHAN .. channel, 'NX', ts, id) == 0 then
    local known = revision_of(channel, id)
    if known and m.rev <= known then return 1 end
    redis.call('ZADD', CHAN .. channel, ts, id)
    keep_descriptions(m)
    take_along(channel, { id }) -- it quotes words that the message no longer has
  else
    outdate_summary(m)
  end
  if prune(m, room) then return 0 end
  local sources = own_sources(m, given, room.limits)
  if not sources then
    discard(channel, { id })
    return 0
  end
  write(m, room, sources)
  return 1
end

-- An edit that leaves no text removes the message, and no older revision may come back.
local function empty(_, channel, id, rev)
  local known = revision_of(channel, id)
  if known and known >= tonumber(rev) then return 0 end
  local gone = redis.call('GET', GONE .. channel .. ':' .. id)
  if gone and (gone == 'inf' or tonumber(gone) >= tonumber(rev)) then return 0 end
  discard(channel, { id })
  redis.call('SET', GONE .. channel .. ':' .. id, rev, 'PX', TOMBSTONE_MS)
  note_change('messages', channel .. ' ' .. id)
  return 1
end

local function delete(_, channel, ...)
  local ids = { ... }
  local seen = 0
  for _, id in ipairs(ids) do
    if redis.call('ZSCORE', CHAN .. channel, id) then seen = seen + 1 end
  end
  discard(channel, ids, 'gone')
  for _, id in ipairs(ids) do redis.call('SET', GONE .. channel .. ':' .. id, 'inf', 'PX', TOMBSTONE_MS) end
  note_change('messages', channel .. ' ' .. table.concat(ids, ' '))
  return seen
end

-- A later, shorter floor (a channel deleted soon after it was cleared) never lowers or shortens an existing one.
local function raise_floor(key, at, floor_ms)
  local known = redis.call('GET', key)
  local ms = tonumber(floor_ms)
  if known then ms = math.max(ms, redis.call('PTTL', key)) end
  redis.call('SET', key, known and tonumber(known) > tonumber(at) and known or at, 'PX', ms)
end

-- Renaming its order hides everything of a channel; the raised epoch keeps it out of index searches. The guild stops
-- listing it until its next message, because a question to the whole guild visits every listed channel.
local function vanish(guild, channel)
  rooms[channel] = nil
  redis.call('UNLINK', WAIT .. channel, PEOPLE .. channel)
  redis.call('SREM', GUILD .. guild, channel)
  local count = redis.call('ZCARD', CHAN .. channel)
  if count == 0 then
    take_all_along(channel)
    retire(channel)
    return 0
  end
  local key = DRAIN .. channel .. ':' .. redis.call('HINCRBY', EPOCHS, channel, 1)
  redis.call('RENAME', CHAN .. channel, key)
  redis.call('SADD', DRAINS, key)
  take_all_along(channel)
  return count
end

-- Whether everything up to then is gone already: what is stored since is newer, and a change that comes again leaves it. Only
-- a caller who dates a change repeats it; otherwise it is wanted now, even if a clock was ahead before.
local function is_over(key, at)
  local known = redis.call('GET', key)
  return known and tonumber(known) >= tonumber(at)
end

local function clear(guild, channel, at, floor_ms, lives_on, dated)
  if lives_on == '1' and dated == '1' and is_over(FLOOR .. channel, at) then return 0 end
  for _, left in ipairs({ UNFETCHED, LOADING }) do -- everything in it is older than the floor
    redis.call('HDEL', left .. guild, string.match(channel, '%d+$'))
  end
  raise_floor(FLOOR .. channel, at, floor_ms)
  -- For good: whoever fetches the channel's past from the platform must not show what was cleared.
  if lives_on == '1' then
    redis.call('HSET', POLICY, channel .. ':cleared', at)
  else
    redis.call('HDEL', NAMES .. guild, string.match(channel, '%d+$'))
  end
  note_change('room', channel)
  return vanish(guild, channel)
end

local function leave(guild, at, dated)
  if dated == '1' and is_over(FLOOR .. guild, at) then return 0 end
  redis.call('SREM', GUILDS, guild)
  raise_floor(FLOOR .. guild, at, TOMBSTONE_MS)
  for channel in pairs(rooms) do
    if string.match(channel, '^%d+') == guild then rooms[channel] = nil end
  end
  local count = 0
  for _, channel in ipairs(redis.call('SMEMBERS', GUILD .. guild)) do count = count + vanish(guild, channel) end
  redis.call('UNLINK', GUILD .. guild, UNFETCHED .. guild, LOADING .. guild, NAMES .. guild)
  note_change('guild', guild)
  return count
end

-- What a person decided (lib/decisions.lua) while Redis could not write it; `at` is when, `keep_s` how long windows are kept.
local function optout(member, kind, at, keep_s)
  redis.call('UNLINK', OPTOUT .. ':none')
  local oldest = tonumber(at) - tonumber(keep_s)
  if kind == 'forget' then decide_forget(member, oldest) else decide_out(member, at, oldest) end
  optouts = true
  read_windows_again()
  return 1
end

local kinds = { add = add, empty = empty, delete = delete, clear = clear, leave = leave, optout = optout }
local results = { redis.call('EXISTS', META), 0 }
local at = 5
while at <= #ARGV do
  local count = tonumber(ARGV[at + 1])
  results[#results + 1] = kinds[ARGV[at]](unpack(ARGV, at + 2, at + 1 + count))
  at = at + 2 + count
end
for channel, room in pairs(rooms) do
  write_people(channel, room)
  if room.listed then prolong(channel, room.life_s) end
  if room.due and room.limits.archive then redis.call('ZADD', DUE, 'LT', room.due, channel) end
end
-- Channels whose messages have all expired leave the list gradually: whenever a channel joins, a few are checked.
for guild in pairs(grown) do
  for _, channel in ipairs(redis.call('SRANDMEMBER', GUILD .. guild, DIRECT)) do retire(channel) end
end
results[2] = left_to_drain
return results
