-- Prepended to every script, after `base` and the key names (keys.py).
-- One rule decides what is visible: a message is in its channel's ZSET, is not older than the channel's lifetime, and
-- is not by somebody who opted out. Documents outside that rule are leftovers that wait to be unlinked.

local DIRECT = 8 -- documents unlinked on the spot; more would block Redis (about 1 ms each in a large index)

local function tag(channel)
  local epoch = redis.call('HGET', EPOCHS, channel)
  if epoch then return channel .. 'e' .. epoch end
  return channel
end

-- `about` holds what no query needs, the revision first ('' if the message was never edited). Once an attachment is
-- described, the revision carries a mark of the text (lib/attachments.lua): a vector fits only the text it was made of.
local function revision(about)
  return string.match(about, '^[^\31]*')
end

-- The revision without that mark: when the author edited the message.
local function edited(about)
  return string.match(about, '^[^\31~]*')
end

-- What other processes must follow in the copies that they keep (buckets.py): a person, room, guild, messages, settings.
local function note_change(kind, what)
  local noted = redis.pcall('XADD', CHANGES, 'MAXLEN', 1000, '*', kind, what)
  if type(noted) == 'table' and noted.err and string.find(noted.err, 'WRONGTYPE') then -- a mere aid: made again
    redis.call('UNLINK', CHANGES)
    redis.call('XADD', CHANGES, 'MAXLEN', 1000, '*', kind, what)
  end
  redis.pcall('PUBLISH', CHANGED, kind) -- a user who may not publish must not be kept from removing
end

-- Reads return it: whoever has followed another one last keeps old copies. '?' if the stream is damaged.
local function newest_change()
  local found = redis.pcall('XREVRANGE', CHANGES, '+', '-', 'COUNT', 1)
  if found.err then return '?' end
  return found[1] and found[1][1] or ''
end

local take_along -- removes what was made of messages that go (lib/derived.lua)

-- Takes ids out of the order, which hides them, with what was made of them; unlinks their documents now or leaves them to
-- the drain. `why` may be 'gone' (deleted, to be forgotten) or 'expired' (too old, which summaries survive).
local left_to_drain = 0
local function discard(channel, ids, why)
  for i = 1, #ids, 500 do
    local part = { unpack(ids, i, math.min(i + 499, #ids)) }
    redis.call('ZREM', CHAN .. channel, unpack(part))
    redis.call('SREM', WAIT .. channel, unpack(part))
  end
  take_along(channel, ids, why)
  if #ids <= DIRECT then
    for _, id in ipairs(ids) do redis.call('UNLINK', MSG .. channel .. ':' .. id) end
    return
  end
  for _, id in ipairs(ids) do redis.call('ZADD', DRAIN .. channel, 0, id) end
  redis.call('SADD', DRAINS, DRAIN .. channel)
  left_to_drain = 1
end

-- Forgets a channel that holds nothing any more. Its epoch may go only now: while one of its documents waits to be
-- unlinked, a later message must not get the same tag.
local function retire(channel)
  if redis.call('EXISTS', CHAN .. channel, PEOPLE .. channel, DRAIN .. channel, SUMMARIES .. channel) > 0 then return end
  for epoch = 1, tonumber(redis.call('HGET', EPOCHS, channel) or 0) do
    if redis.call('EXISTS', DRAIN .. channel .. ':' .. epoch) == 1 then return end
  end
  redis.call('UNLINK', WAIT .. channel, INTO .. channel)
  redis.call('HDEL', EPOCHS, channel)
  redis.call('SREM', GUILD .. string.match(channel, '^%d+'), channel)
end
