-- Adds vectors. ARGV after the common five: version of the vector field, then per message: stream entry or '',
-- '<channel>:<id>', revision, vector or '' (nothing to embed any more).
-- A vector is written only if its document is still visible with the same revision: what was deleted or edited
-- meanwhile is not brought back. Returns how many were written, or -1 if the version is not the current one.

local version = ARGV[6]
if redis.call('HGET', META, 'version') ~= version then return -1 end
local field = 'vec' .. version
local written = 0
for at = 7, #ARGV, 4 do
  local entry, name, rev, vector = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local channel, id = string.match(name, '^(%w+):(%d+)$')
  local about = redis.call('ZSCORE', CHAN .. channel, id) and redis.call('HGET', MSG .. name, 'about')
  if not about then
    redis.call('SREM', WAIT .. channel, id) -- removed or expired before it was embedded
  elseif revision(about) == rev then
    -- Any HSET on an embedded document costs a new insertion into the graph: never write the same one twice.
    local there = redis.call('HSTRLEN', MSG .. name, field) > 0
    if vector ~= '' and not there then
      redis.call('HSET', MSG .. name, field, vector)
      written = written + 1
    end
    if vector ~= '' or there then redis.call('SREM', WAIT .. channel, id) end
  end
  if entry ~= '' then
    redis.pcall('XACK', INGEST, 'embed', entry)
    redis.call('XDEL', INGEST, entry)
  end
end
return written
