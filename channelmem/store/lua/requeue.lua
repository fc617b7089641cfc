-- Puts messages back on the ingest stream. ARGV: version of the vector field, 1 for the first page,
-- '<channel>:<id>'... Returns how many were visible and without a vector, or -1 if the stream already has entries
-- before the first page: these may be the same messages.

local field = 'vec' .. ARGV[1]
if ARGV[2] == '1' and redis.call('XLEN', INGEST) > 0 then return -1 end
local count = 0
for at = 3, #ARGV do
  local name = ARGV[at]
  local channel, id = string.match(name, '^(%w+):(%d+)$')
  local about = redis.call('HGET', MSG .. name, 'about')
  if about and redis.call('ZSCORE', CHAN .. channel, id) and redis.call('HSTRLEN', MSG .. name, field) == 0 then
    redis.call('SADD', WAIT .. channel, id)
    redis.call('XADD', INGEST, '*', 'm', name, 'r', revision(about))
    count = count + 1
  end
end
return count
