-- Prepended to every script, after `base` and the key names (keys.py).
-- One rule decides what is visible: a message is in its channel's ZSET, not older than the channel's
-- lifetime, and not by somebody who opted out. Documents outside that rule are leftovers being drained.

local LIMITS = { n = tonumber(ARGV[2]), buffer_s = tonumber(ARGV[3]), archive_s = tonumber(ARGV[4]) }
local NOW = tonumber(ARGV[1])
local ARCHIVE = ARGV[5] == '1'
local DIRECT = 8 -- documents unlinked on the spot; more would stall everybody (about 1 ms each in a large index)

local function archive_on(channel)
  local own = redis.call('HGET', POLICY, channel .. ':archive')
  if own then return own == '1' end
  return ARCHIVE
end

local function tag(channel)
  local epoch = redis.call('HGET', EPOCHS, channel)
  if epoch then return channel .. 'e' .. epoch end
  return channel
end

local optouts = redis.call('SCARD', OPTOUT) > 0
local function opted_out(guild, author)
  if not optouts then return false end
  return redis.call('SISMEMBER', OPTOUT, author) == 1
      or redis.call('SISMEMBER', OPTOUT, guild .. ':' .. author) == 1
end

-- `about` holds what no query needs, the revision first ('' for a message that was never edited). Once an attachment is
-- described, the revision carries a mark of the text (attachments.lua): a vector fits only the text it was made of.
local function revision(about)
  return string.match(about, '^[^\31]*')
end

-- The revision without that mark: when the author edited the message.
local function edited(about)
  return string.match(about, '^[^\31~]*')
end

-- A document's time to live: never longer than a life from now, whatever the clock did; jittered so that a burst does
-- not expire at once.
local function longest_jitter_s(life_s) return math.min(60, life_s * 0.02) end
local function ttl_ms(ts, id, life_s)
  local left_s = life_s - math.max(0, NOW - ts)
  local jitter_s = longest_jitter_s(life_s) * tonumber(string.sub(id, -3)) / 1000
  return math.max(1, math.floor((left_s + jitter_s) * 1000))
end

-- A channel's order lives as long as any of its documents may, also those stored under a longer lifetime than today's.
local function prolong(channel, life_s)
  local ms = math.ceil((life_s + longest_jitter_s(life_s)) * 1000)
  if redis.call('PEXPIRE', CHAN .. channel, ms, 'GT') == 0 then redis.call('PEXPIRE', CHAN .. channel, ms, 'NX') end
end

-- Takes ids out of the order, which hides them, and unlinks their documents now or leaves them to the drain.
local left_to_drain = 0
local function discard(channel, ids)
  for i = 1, #ids, 500 do
    local part = { unpack(ids, i, math.min(i + 499, #ids)) }
    redis.call('ZREM', CHAN .. channel, unpack(part))
    redis.call('SREM', WAIT .. channel, unpack(part))
  end
  if #ids <= DIRECT then
    for _, id in ipairs(ids) do redis.call('UNLINK', MSG .. channel .. ':' .. id) end
    return
  end
  for _, id in ipairs(ids) do redis.call('ZADD', DRAIN .. channel, 0, id) end
  redis.call('SADD', DRAINS, DRAIN .. channel)
  left_to_drain = 1
end

-- Forgets a channel of which nothing is left. Its epoch may go only now: while a document of it is still to be
-- unlinked, a later message must not get the tag of that one again.
local function retire(channel)
  if redis.call('EXISTS', CHAN .. channel, PEOPLE .. channel, DRAIN .. channel) > 0 then return end
  for epoch = 1, tonumber(redis.call('HGET', EPOCHS, channel) or 0) do
    if redis.call('EXISTS', DRAIN .. channel .. ':' .. epoch) == 1 then return end
  end
  redis.call('UNLINK', WAIT .. channel)
  redis.call('HDEL', EPOCHS, channel)
  redis.call('SREM', GUILD .. string.match(channel, '^%d+'), channel)
end
