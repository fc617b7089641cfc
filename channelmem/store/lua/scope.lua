-- Uses rules, visible.
-- What a search of the index may look at, before it is searched. The searches themselves are no part of a script: their
-- replies would pass through Lua, which takes several times as long as the search.
-- ARGV after lib/visible.lua's four: version of the vector field, limit, window start, window end, 1 to include flagged
-- messages, 1 to name what still waits for its vector, number of authors, authors..., channels... (none: the whole
-- guild). Returns { messages in the view, oldest ts, filter for FT.SEARCH, filter that counts hidden messages, rows
-- still without a vector, newest change }; the filters are '' if there is nothing to look for, a row is { channel, id, fields }.

local version = ARGV[5]
if redis.call('HGET', META, 'version') ~= version then
  return redis.error_reply('CMVERSION the index was rebuilt')
end
local limit, first, last, flagged = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] == '1'
local authors = { unpack(ARGV, 12, 11 + tonumber(ARGV[11])) }
local channels = { unpack(ARGV, 12 + #authors, #ARGV) }
if #channels == 0 then channels = redis.call('SMEMBERS', GUILD .. GUILD_ID) end
local MANY = 50 -- channels; a guild may have thousands

local function number(value)
  if value == math.huge then return '+inf' end
  if value == -math.huge then return '-inf' end
  return string.format('%.17g', value)
end

-- The fields of a hash, one per channel, in few calls.
local function of_channels(key)
  local found = {}
  if redis.call('EXISTS', key) == 0 then return found end
  for at = 1, #channels, 1000 do
    local names = {}
    for i = at, math.min(at + 999, #channels) do names[#names + 1] = channels[i] end
    for i, value in ipairs(redis.call('HMGET', key, unpack(names))) do found[channels[at + i - 1]] = value end
  end
  return found
end
local epochs = of_channels(EPOCHS)

local total, oldest, stale = 0, nil, 0
-- Counts what a channel holds in view and window. `view.from` becomes the oldest time that can be found: a capped view
-- begins with its n-th newest message.
local function measure(channel, view)
  local order = CHAN .. channel
  local head = redis.call('ZRANGE', order, 0, 0, 'WITHSCORES')
  local whole = #head > 0 and tonumber(head[2]) >= view.oldest
  if not whole then head = redis.call('ZRANGEBYSCORE', order, view.oldest, '+inf', 'WITHSCORES', 'LIMIT', 0, 1) end
  if #head == 0 then return 0 end
  view.from = tonumber(head[2])
  if not whole then stale = stale + redis.call('ZCOUNT', order, '-inf', '(' .. number(view.from)) end
  if view.capped then
    local nth = redis.call('ZREVRANGE', order, LIMITS.n - 1, LIMITS.n - 1, 'WITHSCORES')
    view.from = math.max(view.from, tonumber(nth[2] or '-inf'))
  end
  oldest = math.min(oldest or math.huge, view.from)
  local inside
  if whole and not view.capped and first <= view.from and last == math.huge then
    inside = redis.call('ZCARD', order)
  else
    inside = redis.call('ZCOUNT', order, math.max(view.from, first), last)
  end
  if view.capped then
    -- Other messages of the same moment as the n-th are not among the newest n.
    inside = math.max(0, math.min(inside, LIMITS.n - redis.call('ZCOUNT', order, '(' .. number(last), '+inf')))
  end
  total = total + inside
  return inside
end

local function clause(tags, from, to)
  local times = (from > -math.huge or to < math.huge) and ' @ts:[' .. number(from) .. ' ' .. number(to) .. ']' or ''
  return '(@channel:{' .. table.concat(tags, '|') .. '}' .. times .. ')'
end

-- Channels with their epochs, and times where a window is asked for; a capped channel counts from its n-th newest
-- message on. RediSearch walks all of a range of times, so there is none that merely says what is kept: whether a
-- message is visible is checked later anyway. Only where more has outlived a channel than a search returns (its lifetime
-- was shortened), these would take the places of others.
local function filter()
  local whole, clauses, live, earliest = {}, {}, {}, math.huge
  for _, channel in ipairs(channels) do
    local view = bound()
    if measure(channel, view) > 0 then
      local tagged = epochs[channel] and channel .. 'e' .. epochs[channel] or channel
      live[#live + 1] = channel
      if view.capped then
        clauses[#clauses + 1] = clause({ tagged }, math.max(view.from, first), last)
      else
        whole[#whole + 1] = tagged
        earliest = math.min(earliest, view.from)
      end
    end
  end
  channels = live
  if #whole > 0 then
    local from = first > earliest and first or -math.huge
    if stale > limit then from = math.max(from, NOW - LIMITS.archive_s) end
    clauses[#clauses + 1] = clause(whole, from, last)
  end
  if #clauses == 0 then return '' end
  return '(' .. table.concat(clauses, '|') .. ')'
end

-- "I have the last 6 messages" must not reveal that five of them are by somebody who opted out. Theirs are counted, not
-- everybody else's, which are many more.
local function hidden(query)
  if not optouts then return '' end
  local people = {}
  for _, name in ipairs(redis.call('SMEMBERS', OPTOUT)) do
    local guild, author = string.match(name, '^(%d+):(%d+)$')
    if not guild or guild == GUILD_ID then people[#people + 1] = author or name end
  end
  return #people > 0 and query .. ' @author:{' .. table.concat(people, '|') .. '}' or ''
end

local function waiting()
  local found, by = {}, {}
  -- Whatever waits is on the stream, too; many channels are not asked one by one for nothing.
  if ARGV[10] ~= '1' or #channels > MANY and redis.call('XLEN', INGEST) == 0 then return found end
  for _, author in ipairs(authors) do by[author] = true end
  for _, channel in ipairs(channels) do
    for _, id in ipairs(redis.call('SRANDMEMBER', WAIT .. channel, 300)) do
      local ts = tonumber(redis.call('ZSCORE', CHAN .. channel, id) or '-inf')
      if ts >= first and ts <= last and visible(channel, id) then
        local late = row(channel, id)
        if late and (flagged or not late[3][4]) and (#authors == 0 or by[late[3][1]]) then found[#found + 1] = late end
      end
    end
  end
  return found
end

local query = filter()
if query == '' then return { 0, oldest and number(oldest) or false, '', '', {}, newest_change() } end
local counted = hidden(query)
if #authors > 0 then query = query .. ' @author:{' .. table.concat(authors, '|') .. '}' end
if not flagged then query = query .. ' -@flag:{own|addressed}' end
return { total, number(oldest), query, counted, waiting(), newest_change() }
