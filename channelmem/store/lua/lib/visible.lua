-- Shared by the scripts that read: `visible` applies the rule, `row` gives the document.
-- ARGV: the time, the limits of the query, guild, 1 for the buffer view.

local LIMITS = limits_of(ARGV[2])
local GUILD_ID, BUFFER = ARGV[3], ARGV[4] == '1'
local FIELDS = { 'author', 'text', 'ts', 'flag', 'about' } -- the same as in index.py

-- The oldest visible time of a channel in this view, and whether only its newest n messages count.
local function bound()
  local buffer = BUFFER or not LIMITS.archive
  return { oldest = NOW - (buffer and LIMITS.buffer_s or LIMITS.archive_s), capped = buffer }
end

-- The time of a message that may be seen, else false.
local function visible(channel, id)
  local order = CHAN .. channel
  local ts = redis.call('ZSCORE', order, id)
  local limit = bound()
  if not ts or tonumber(ts) < limit.oldest then return false end
  return (not limit.capped or redis.call('ZREVRANK', order, id) < LIMITS.n) and ts
end

local function row(channel, id)
  local doc = redis.call('HMGET', MSG .. channel .. ':' .. id, unpack(FIELDS))
  if not doc[5] or opted_out(GUILD_ID, doc[1]) then return nil end
  return { channel, id, doc }
end

-- Adds to `rows` what lies within some positions of a message; `seen` has by channel the ids to leave out.
local function beside(channel, id, radius, seen, rows)
  local order, view, known = CHAN .. channel, bound(), seen[channel]
  local place = redis.call('ZRANK', order, id)
  if not place then return end
  -- The order itself says what is visible, so there is no need to check each of them.
  local oldest_place = view.capped and redis.call('ZCARD', order) - LIMITS.n or 0
  local first = math.max(0, oldest_place, place - radius)
  local found = redis.call('ZRANGE', order, first, place + radius, 'WITHSCORES')
  for at = 1, #found, 2 do
    if not known[found[at]] then
      known[found[at]] = true
      if tonumber(found[at + 1]) >= view.oldest then rows[#rows + 1] = row(channel, found[at]) end
    end
  end
end
