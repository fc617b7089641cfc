-- Nearest by vector, best by full text and document frequencies of words, in one call over the same filter.
-- ARGV after read.lua's four: version of the vector field, limit, window start, window end, 1 to include flagged
-- messages, vector or '', text query or '', 1 for newest first (without vector and text), number of authors,
-- authors..., number of counted queries, these..., channels... (none: the whole guild).
-- Returns { messages in the view, oldest ts, rows, rows still without a vector, counts }; a row is
-- { channel, id, fields, distance or nil, text score or nil }.

local version = ARGV[5]
if redis.call('HGET', META, 'version') ~= version then
  return redis.error_reply('CMVERSION the index was rebuilt')
end
local limit, first, last, flagged = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] == '1'
local vector, text, newest = ARGV[10], ARGV[11], ARGV[12] == '1'
local MOST = 1000 -- candidates requested from the index at most, when leftovers take the first places

local at = 13
local function list()
  local count = tonumber(ARGV[at])
  local values = { unpack(ARGV, at + 1, at + count) }
  at = at + count + 1
  return values
end
local authors, counted = list(), list()
local channels = { unpack(ARGV, at, #ARGV) }
if #channels == 0 then channels = redis.call('SMEMBERS', GUILD .. GUILD_ID) end

local function number(value)
  if value == math.huge then return '+inf' end
  if value == -math.huge then return '-inf' end
  return string.format('%.17g', value)
end

local total, oldest = 0, nil
-- Counts what a channel holds in view and window. `view.from` becomes the oldest time that can be found: a capped view
-- begins with its n-th newest message.
local function measure(channel, view)
  local order = CHAN .. channel
  local head = redis.call('ZRANGEBYSCORE', order, view.oldest, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if #head == 0 then return 0 end
  view.from = tonumber(head[2])
  if view.capped then
    local nth = redis.call('ZREVRANGE', order, LIMITS.n - 1, LIMITS.n - 1, 'WITHSCORES')
    view.from = math.max(view.from, tonumber(nth[2] or '-inf'))
  end
  oldest = math.min(oldest or math.huge, view.from)
  local inside = redis.call('ZCOUNT', order, math.max(view.from, first), last)
  if view.capped then
    -- Other messages of the same moment as the n-th are not among the newest n.
    inside = math.max(0, math.min(inside, LIMITS.n - redis.call('ZCOUNT', order, '(' .. number(last), '+inf')))
  end
  total = total + inside
  return inside
end

-- "I have the last 6 messages" must not reveal that five of them are by somebody who opted out.
local function count_without_hidden(query)
  if not optouts then return end
  local hidden = {}
  for _, name in ipairs(redis.call('SMEMBERS', OPTOUT)) do
    local guild, author = string.match(name, '^(%d+):(%d+)$')
    if not guild or guild == GUILD_ID then hidden[#hidden + 1] = author or name end
  end
  if #hidden == 0 then return end
  local others = query .. ' -@author:{' .. table.concat(hidden, '|') .. '}'
  total = redis.call('FT.SEARCH', IDX, others, 'LIMIT', 0, 0, 'DIALECT', 2)[1]
end

-- The filter: channels with their epochs and times; a capped channel counts from its n-th newest message on.
local function filter()
  local whole, clauses, live = {}, {}, {}
  for _, channel in ipairs(channels) do
    local view = bound(channel)
    if measure(channel, view) > 0 then
      live[#live + 1] = channel
      if view.capped then
        local from = math.max(view.from, first)
        clauses[#clauses + 1] = '(@channel:{' .. tag(channel) .. '} @ts:[' .. number(from) .. ' ' .. number(last) .. '])'
      else
        whole[#whole + 1] = tag(channel)
      end
    end
  end
  channels = live
  if #whole > 0 then
    local from = math.max(NOW - LIMITS.archive_s, first)
    clauses[#clauses + 1] = '(@channel:{' .. table.concat(whole, '|') .. '} @ts:['
        .. number(from) .. ' ' .. number(last) .. '])'
  end
  if #clauses == 0 then return nil end
  local query = '(' .. table.concat(clauses, '|') .. ')'
  count_without_hidden(query)
  if #authors > 0 then query = query .. ' @author:{' .. table.concat(authors, '|') .. '}' end
  if not flagged then query = query .. ' -@flag:{own|addressed}' end
  return query
end

local rows, known = {}, {}
local function found(key)
  local row_of = known[key]
  if row_of == nil then
    local channel, id = string.match(string.sub(key, #MSG + 1), '^(%w+):(%d+)$')
    row_of = visible(channel, id) and row(channel, id) or false
    known[key] = row_of
    if row_of then
      row_of[4], row_of[5] = false, false
      rows[#rows + 1] = row_of
    end
  end
  return row_of
end

-- Asks for more while leftovers (removed, not yet unlinked) take places. `search` returns keys and values.
local function fill(search, place)
  local wanted = limit
  while true do
    local hits, live = search(wanted), 0
    for i = 1, #hits, 2 do
      local hit = found(hits[i])
      if hit then
        live = live + 1
        if place then hit[place] = hits[i + 1] end
      end
    end
    if live >= limit or #hits < wanted * 2 or wanted >= MOST then return end
    wanted = math.min(MOST, wanted * 4)
  end
end

local query = filter()
local counts = {}
if not query then return { 0, oldest and number(oldest) or false, {}, {}, counts } end

if vector ~= '' then
  fill(function(k)
    local reply = redis.call('FT.SEARCH', IDX, '(' .. query .. ')=>[KNN ' .. k .. ' @vec' .. version .. ' $v AS d]',
      'PARAMS', 2, 'v', vector, 'RETURN', 1, 'd', 'LIMIT', 0, k, 'DIALECT', 2)
    local hits = {}
    for i = 2, #reply, 2 do
      -- A document that expired during the search comes without its fields.
      if reply[i + 1] and reply[i + 1][2] then
        hits[#hits + 1] = reply[i]
        hits[#hits + 1] = reply[i + 1][2]
      end
    end
    return hits
  end, 4)
end
if text ~= '' then
  fill(function(k)
    local reply = redis.call('FT.SEARCH', IDX, '(' .. query .. ') ' .. text, 'NOCONTENT', 'WITHSCORES',
      'SCORER', 'BM25STD', 'LIMIT', 0, k, 'DIALECT', 2)
    return { unpack(reply, 2) }
  end, 5)
end
if newest then
  fill(function(k)
    local reply = redis.call('FT.SEARCH', IDX, query, 'NOCONTENT', 'SORTBY', 'ts', 'DESC', 'LIMIT', 0, k, 'DIALECT', 2)
    local hits = {}
    for i = 2, #reply do
      hits[#hits + 1] = reply[i]
      hits[#hits + 1] = false
    end
    return hits
  end)
end
for i, words in ipairs(counted) do
  counts[i] = redis.call('FT.SEARCH', IDX, '(' .. query .. ') ' .. words, 'LIMIT', 0, 0, 'DIALECT', 2)[1]
end

local by = {}
for _, author in ipairs(authors) do by[author] = true end
local waiting = {}
if vector ~= '' then
  for _, channel in ipairs(channels) do
    for _, id in ipairs(redis.call('SRANDMEMBER', WAIT .. channel, 300)) do
      local ts = tonumber(redis.call('ZSCORE', CHAN .. channel, id) or '-inf')
      if ts >= first and ts <= last and visible(channel, id) then
        local late = row(channel, id)
        if late and (flagged or not late[3][4]) and (#authors == 0 or by[late[3][1]]) then
          waiting[#waiting + 1] = late
        end
      end
    end
  end
end
return { total, oldest and number(oldest) or false, rows, waiting, counts }
