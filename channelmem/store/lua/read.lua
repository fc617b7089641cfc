-- Shared by the scripts that read: `visible` applies the rule, `row` gives the document.
-- ARGV after the common five: guild, version of the vector field ('' where no vector matters), 1 for the buffer view.

local GUILD_ID, VERSION, BUFFER = ARGV[6], ARGV[7], ARGV[8] == '1'
if VERSION ~= '' and redis.call('HGET', META, 'version') ~= VERSION then
  return redis.error_reply('CMVERSION the index was made anew since')
end
local FIELDS = { 'author', 'text', 'ts', 'flag', 'about' } -- schema.py has the same

-- Oldest visible time of a channel in this view, and whether only its newest n count.
local bounds = {}
local function bound(channel)
  local known = bounds[channel]
  if known then return known end
  local archive = archive_on(channel)
  local buffer = BUFFER or not archive
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
