-- Shared by the scripts that read: `visible` applies the rule, `row` gives the document.
-- ARGV: the time, the limits of the query, guild, 1 for the buffer view.

local LIMITS = limits_of(ARGV[2])
local GUILD_ID, BUFFER = ARGV[3], ARGV[4] == '1'
local FIELDS = { 'author', 'text', 'ts', 'flag', 'about' } -- the same as in schema.py

-- The oldest visible time of a channel in this view, and whether only its newest n messages count.
local bounds = {}
local function bound(channel)
  local known = bounds[channel]
  if known then return known end
  local buffer = BUFFER or not has_archive(redis.call('HGET', POLICY, channel .. ':archive'), LIMITS)
  known = { oldest = NOW - (buffer and LIMITS.buffer_s or LIMITS.archive_s), capped = buffer }
  bounds[channel] = known
  return known
end

local function visible(channel, id)
  local order = CHAN .. channel
  local ts = redis.call('ZSCORE', order, id)
  local limit = bound(channel)
  if not ts or tonumber(ts) < limit.oldest then return false end
  return not limit.capped or redis.call('ZREVRANK', order, id) < LIMITS.n
end

local function row(channel, id)
  local doc = redis.call('HMGET', MSG .. channel .. ':' .. id, unpack(FIELDS))
  if not doc[5] or opted_out(GUILD_ID, doc[1]) then return nil end
  return { channel, id, doc }
end
