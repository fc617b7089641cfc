-- Part of every script, after common.lua. What was made of messages goes with them: the bot's answers, which quote, and
-- whatever else derived.py names as a kind. Something made is called '<kind>/<room>:<id>'. An answer is a message; other
-- kinds have a hash, MADE. INTO lists by source what was made of it, QUOTING by author what was made of their words.

local ANSWERS_GONE_MS = 15 * 60 * 1000 -- a late edit of an answer does not bring it back
local REDACT_S, REDACT_MOST = 24 * 60 * 60, 1000

-- Removes what is in the set `names`. `why` 'gone': a source was deleted or its author is to be forgotten, so people
-- should not go on reading an answer on the platform either.
local function unmake(names, why)
  local answers = {}
  for name in pairs(names) do
    local kind, channel, id = string.match(name, '^(%l+)/(%w+):(%w+)$')
    local ts = kind == 'answer' and redis.call('ZSCORE', CHAN .. channel, id)
    if kind ~= 'answer' then
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
  for channel, ids in pairs(answers) do discard(channel, ids, why) end
end

local function add_names(names, text)
  for name in string.gmatch(text or '', '%S+') do names[name] = true end
end

take_along = function(channel, ids, why)
  if redis.call('EXISTS', INTO .. channel) == 0 then return end
  local names = {}
  for i = 1, #ids, 500 do
    local part = { unpack(ids, i, math.min(i + 499, #ids)) }
    for _, text in ipairs(redis.call('HMGET', INTO .. channel, unpack(part))) do add_names(names, text) end
    redis.call('HDEL', INTO .. channel, unpack(part))
  end
  unmake(names, why)
end

-- The same for a whole channel.
local function take_all_along(channel)
  local names = {}
  for _, text in ipairs(redis.call('HVALS', INTO .. channel)) do add_names(names, text) end
  redis.call('UNLINK', INTO .. channel)
  unmake(names)
end
