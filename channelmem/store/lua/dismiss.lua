-- Removes consumers that hold nothing and have been idle for long: workers that were killed. ARGV: how long, in ms.
-- One step, because removing a consumer drops what it holds. Returns how many were removed.

local removed = 0
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', INGEST, 'embed')) do
  local facts = {}
  for at = 1, #consumer, 2 do facts[consumer[at]] = consumer[at + 1] end
  if facts.pending == 0 and facts.idle >= tonumber(ARGV[1]) then
    redis.call('XGROUP', 'DELCONSUMER', INGEST, 'embed', facts.name)
    removed = removed + 1
  end
end
return removed
