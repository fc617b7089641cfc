-- A step of a reindex. ARGV: kind, version of the new field, then by kind:
--   todo   count            -> { left, name, revision, text, ... } of documents without the new vector
--   write  name, revision, vector, ... -> how many were written
--   switch model, dims      -> the number of entries put on the stream; from here on the new vectors serve
--   clean  channel, last id, count, fields... -> the last id that was cleaned, or '' at the end

local kind, version = ARGV[1], ARGV[2]
local field, index = 'vec' .. version, IDX .. ':' .. version

local function missing(count)
  return redis.call('FT.SEARCH', index, 'ismissing(@' .. field .. ')', 'NOCONTENT', 'LIMIT', 0, count,
    'TIMEOUT', 0, 'DIALECT', 2)
end

local function place(name)
  return string.match(name, '^(%w+):(%d+)$')
end

if kind == 'todo' then
  local reply = missing(ARGV[3])
  local out = { reply[1] }
  for i = 2, #reply do
    local name = string.sub(reply[i], #MSG + 1)
    local channel, id = place(name)
    local doc = redis.call('HMGET', MSG .. name, 'text', 'about')
    if doc[2] and redis.call('ZSCORE', CHAN .. channel, id) then
      for _, value in ipairs({ name, revision(doc[2]), doc[1] }) do out[#out + 1] = value end
    else
      redis.call('UNLINK', MSG .. name) -- a leftover: there is nothing to embed, and it would come up again
    end
  end
  return out
end

if kind == 'write' then
  local written = 0
  for at = 3, #ARGV, 3 do
    local channel, id = place(ARGV[at])
    local about = redis.call('HGET', MSG .. ARGV[at], 'about')
    if about and revision(about) == ARGV[at + 1] and redis.call('ZSCORE', CHAN .. channel, id) then
      redis.call('HSET', MSG .. ARGV[at], field, ARGV[at + 2])
      written = written + 1
    end
  end
  return written
end

if kind == 'switch' then
  redis.call('HSET', META, 'version', version, 'model', ARGV[3], 'dims', ARGV[4], 'old', 1)
  redis.call('HDEL', META, 'next', 'next_model', 'next_shape')
  redis.call('FT.ALIASUPDATE', IDX, index)
  local reply = missing(1000) -- stored during the last step; a worker with the new model embeds these
  for i = 2, #reply do
    local name = string.sub(reply[i], #MSG + 1)
    local channel, id = place(name)
    redis.call('SADD', WAIT .. channel, id)
    redis.call('XADD', INGEST, '*', 'm', name, 'r', revision(redis.call('HGET', reply[i], 'about') or ''))
  end
  return #reply - 1
end

-- clean: removes the old fields from a few documents at a time, because each removal indexes the document again. Goes
-- from the newest on and continues after the last id; if that one is gone, starts over, which costs little.
local channel, last, count = ARGV[3], ARGV[4], tonumber(ARGV[5])
local order = CHAN .. channel
local at = last ~= '' and redis.call('ZREVRANK', order, last)
local first = at and at + 1 or 0
local ids = redis.call('ZREVRANGE', order, first, first + count - 1)
for _, id in ipairs(ids) do redis.call('HDEL', MSG .. channel .. ':' .. id, unpack(ARGV, 6)) end
return #ids == count and ids[count] or ''
