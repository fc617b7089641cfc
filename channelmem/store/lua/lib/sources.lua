-- Shared by the scripts that store what is made of messages (lib/derived.lua). Sources arrive as '<room>:<id>:<revision>',
-- separated by spaces.

-- A source as it is now; nil if it is gone, edited since it was read, too old, or by somebody who opted out.
local function standing(guild, source, limits)
  local channel, id, rev = string.match(source, '^(%w+):(%d+):(%S+)$')
  local ts = tonumber(redis.call('ZSCORE', CHAN .. channel, id) or nil)
  local author, about, from = unpack(redis.call('HMGET', MSG .. channel .. ':' .. id, 'author', 'about', 'from'))
  if not ts or not about or (tonumber(edited(about)) or 0) ~= tonumber(rev) then return nil end
  local ends = ts + limits.life_s
  if ends < NOW or opted_out(guild, author) then return nil end
  -- A switched-off archive is still there for a while, but hidden.
  if limits.kept and not limits.archive
      and (ts < NOW - limits.buffer_s or redis.call('ZREVRANK', CHAN .. channel, id) >= limits.n) then
    return nil
  end
  return { channel = channel, id = id, author = author, ends = ends, from = from }
end

-- All sources: those given, and what an answer among them was made of in turn, so that repeating words does not launder
-- them. Returns nil if one of them no longer stands, for then the words must not be kept.
local function sources_of(guild, given, limits)
  local found, todo, at = {}, {}, 1
  for source in string.gmatch(given, '%S+') do todo[#todo + 1] = source end
  while todo[at] do
    local source = todo[at]
    if not found[source] then
      local known = standing(guild, source, limits)
      if not known then return nil end
      found[source] = known
      for further in string.gmatch(known.from or '', '%S+') do todo[#todo + 1] = further end
    end
    at = at + 1
  end
  return found
end

local function keep_until(key, ends)
  local ms = math.max(1, math.ceil((ends - NOW) * 1000))
  if redis.call('PEXPIRE', key, ms, 'GT') == 0 then redis.call('PEXPIRE', key, ms, 'NX') end
end

-- What was made of a source, without summaries that are gone, and without `other`.
local function standing_names(channel, id, other)
  local names = {}
  for known in string.gmatch(redis.call('HGET', INTO .. channel, id) or '', '%S+') do
    local room, summary = string.match(known, '^summary/(%w+):(%S+)$')
    local stands = not summary or redis.call('ZSCORE', SUMMARIES .. room, summary)
    if known ~= other and stands then names[#names + 1] = known end
  end
  return names
end

-- Notes what something was made of, for as long as it may live.
local function note(name, channel, id, author, ends)
  local names = standing_names(channel, id, name)
  names[#names + 1] = name
  redis.call('HSET', INTO .. channel, id, table.concat(names, ' '))
  keep_until(INTO .. channel, ends)
  if not author then return end
  redis.call('ZREMRANGEBYSCORE', QUOTING .. author, '-inf', NOW)
  redis.call('ZADD', QUOTING .. author, ends, name)
  keep_until(QUOTING .. author, ends)
end

-- Ties something made, which is stored under `key`, to its sources: it ends with the first of them at the latest.
local function tie(name, key, sources)
  local first, from = math.huge, {}
  for source, one in pairs(sources) do
    note(name, one.channel, one.id, one.author, one.ends)
    first = math.min(first, one.ends)
    from[#from + 1] = source
  end
  redis.call('HSET', key, 'from', table.concat(from, ' '))
  local ms = math.max(1, math.floor((first - NOW) * 1000))
  if redis.call('PEXPIRE', key, ms, 'LT') == 0 then redis.call('PEXPIRE', key, ms, 'NX') end
end
