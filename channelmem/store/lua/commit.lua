-- Adds vectors. ARGV: version of the vector field, then per message: stream entry or '', '<channel>:<id>', revision,
-- vector or '' (nothing left to embed) or '-' (the model fails on it).
-- A vector is written only if its document is still visible with the same revision, so messages deleted or edited
-- in the meantime do not come back. Returns how many were written.

local version = ARGV[1]
if redis.call('HGET', META, 'version') ~= version then
  return redis.error_reply('CMVERSION the index was rebuilt')
end
local field = 'vec' .. version
local written, entries, settled = 0, {}, {}
for at = 2, #ARGV, 4 do
  local entry, name, rev, vector = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local channel, id = string.match(name, '^(%w+):(%d+)$')
  local doc = redis.call('ZSCORE', CHAN .. channel, id) and redis.call('HMGET', MSG .. name, 'about', field)
  local current = doc and doc[1] and revision(doc[1]) == rev
  -- Any HSET on an embedded document inserts it into the graph again: never write the same vector twice.
  if current and #vector > 1 and not doc[2] then
    redis.call('HSET', MSG .. name, field, vector)
    written = written + 1
  end
  -- Removed or expired before it was embedded, or embedded, or given up: it waits no longer.
  if not (doc and doc[1]) or current and (vector ~= '' or doc[2]) then
    settled[channel] = settled[channel] or {}
    table.insert(settled[channel], id)
  end
  if entry ~= '' then entries[#entries + 1] = entry end
end
for channel, ids in pairs(settled) do redis.call('SREM', WAIT .. channel, unpack(ids)) end
if #entries > 0 then
  redis.pcall('XACK', INGEST, 'embed', unpack(entries))
  redis.call('XDEL', INGEST, unpack(entries))
end
return written
