-- Part of every script, after lib/common.lua. What was made of messages goes with them: the bot's answers, which quote, and
-- whatever else derived.py names as a kind. Something made is called '<kind>/<room>:<id>'. An answer is a message, a summary
-- has a document and a place in SUMMARIES, other kinds have a hash, MADE. INTO lists by source what was made of it, QUOTING
-- by author what was made of their words.

local ANSWERS_GONE_MS = 15 * 60 * 1000 -- a late edit of an answer does not bring it back
local REDACT_S, REDACT_MOST = 24 * 60 * 60, 1000

local function add_names(names, text)
  for name in string.gmatch(text or '', '%S+') do names[name] = true end
end

-- Hides and removes summaries with every level above them, which INTO names like anything else that is made of something.
-- The room is due: the scripts do not all know the time, so whoever looks next decides when.
local function unsummarise(channel, ids)
  while #ids > 0 do
    local above, more = {}, {}
    for _, id in ipairs(ids) do
      redis.call('ZREM', SUMMARIES .. channel, id)
      redis.call('UNLINK', SUMMARY .. channel .. ':' .. id)
      add_names(above, redis.call('HGET', INTO .. channel, id))
      redis.call('HDEL', INTO .. channel, id)
    end
    for name in pairs(above) do more[#more + 1] = string.match(name, ':([%d-]+)$') end
    ids = more
  end
  redis.call('ZADD', DUE, 0, channel)
end

-- The same for all of a channel, for good.
local function unsummarise_all(channel)
  local ids = redis.call('ZRANGE', SUMMARIES .. channel, 0, -1)
  redis.call('UNLINK', SUMMARIES .. channel)
  for _, id in ipairs(ids) do
    redis.call('UNLINK', SUMMARY .. channel .. ':' .. id)
    redis.call('HDEL', INTO .. channel, id)
  end
  redis.call('ZREM', DUE, channel)
end

-- Removes what is in the set `names`. `why` 'gone': a source was deleted or its author is to be forgotten, so people
-- should not go on reading an answer on the platform either.
local function unmake(names, why)
  local answers, summaries = {}, {}
  for name in pairs(names) do
    local kind, channel, id = string.match(name, '^(%l+)/(%w+):([%w-]+)$')
    local ts = kind == 'answer' and redis.call('ZSCORE', CHAN .. channel, id)
    if kind == 'summary' then
      summaries[channel] = summaries[channel] or {}
      table.insert(summaries[channel], id)
    elseif kind ~= 'answer' then
      redis.call('UNLINK', MADE .. name)
    elseif ts then
      answers[channel] = answers[channel] or {}
      table.insert(answers[channel], id)
      redis.call('SET', GONE .. channel .. ':' .. id, 'inf', 'PX', ANSWERS_GONE_MS)
      if why == 'gone' then
        redis.call('ZADD', REDACT, ts, channel .. ':' .. id)
        redis.call('ZREMRANGEBYRANK', REDACT, 0, -REDACT_MOST - 1)
        redis.call('EXPIRE', REDACT, REDACT_S)
      end
    end
  end
  for channel, ids in pairs(summaries) do unsummarise(channel, ids) end
  for channel, ids in pairs(answers) do discard(channel, ids, why) end
end

-- The summaries among what was made of a message: they outlive it when it expires, and still go with it.
local function outliving(text)
  local kept = {}
  for name in string.gmatch(text, 'summary/%S+') do kept[#kept + 1] = name end
  return table.concat(kept, ' ')
end

take_along = function(channel, ids, why)
  if redis.call('EXISTS', INTO .. channel) == 0 then return end
  local names = {}
  for i = 1, #ids, 500 do
    local part = { unpack(ids, i, math.min(i + 499, #ids)) }
    local texts = redis.call('HMGET', INTO .. channel, unpack(part))
    redis.call('HDEL', INTO .. channel, unpack(part))
    for at, text in ipairs(texts) do
      local kept = text and why == 'expired' and outliving(text) or ''
      if kept ~= '' then
        redis.call('HSET', INTO .. channel, part[at], kept)
        text = string.gsub(text, 'summary/%S+', '')
      end
      add_names(names, text)
    end
  end
  unmake(names, why)
end

-- The same for a whole channel.
local function take_all_along(channel)
  local names = {}
  for _, text in ipairs(redis.call('HVALS', INTO .. channel)) do add_names(names, text) end
  redis.call('UNLINK', INTO .. channel)
  unmake(names)
  unsummarise_all(channel)
end
