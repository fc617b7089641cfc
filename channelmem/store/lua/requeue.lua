-- Puts messages without a vector back on the ingest stream, a page at a time. ARGV: version of the vector field, how many
-- at most, cursor ('' for the first page). Returns the cursor of the next page (0: there is none); nil if the stream has
-- entries before the first page, because these may be the same messages.

local field, reply = 'vec' .. ARGV[1], nil
if ARGV[3] == '' then
  if redis.call('XLEN', INGEST) > 0 then return false end
  -- Not FT.SEARCH, which the server limits: what the model fails on comes first every time, and would hide the rest.
  reply = redis.call('FT.AGGREGATE', IDX, 'ismissing(@' .. field .. ')', 'LOAD', 1, '@__key',
    'WITHCURSOR', 'COUNT', ARGV[2], 'MAXIDLE', 60000, 'TIMEOUT', 0, 'DIALECT', 2)
else
  reply = redis.call('FT.CURSOR', 'READ', IDX, ARGV[3], 'COUNT', ARGV[2])
end
for i = 2, #reply[1] do
  local row = reply[1][i]
  local name = row and row[2] and string.sub(row[2], #MSG + 1) or '' -- else expired
  local channel, id = string.match(name, '^(%w+):(%d+)$')
  local about = channel and redis.call('HGET', MSG .. name, 'about')
  if about and redis.call('ZSCORE', CHAN .. channel, id) and redis.call('HSTRLEN', MSG .. name, field) == 0 then
    redis.call('SADD', WAIT .. channel, id)
    redis.call('XADD', INGEST, '*', 'm', name, 'r', revision(about))
  end
end
return tostring(reply[2])
