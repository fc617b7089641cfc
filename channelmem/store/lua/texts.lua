-- What is still to embed. ARGV after the common five: version, then per message '<channel>:<id>', revision.
-- Returns per message its text, or nil where there is nothing left to do.

local field = 'vec' .. ARGV[6]
local texts = {}
for at = 7, #ARGV, 2 do
  local name, rev = ARGV[at], ARGV[at + 1]
  local channel, id = string.match(name, '^(%w+):(%d+)$')
  local known = redis.call('HMGET', MSG .. name, 'text', 'about')
  local current = known[2] and revision(known[2]) == rev and redis.call('ZSCORE', CHAN .. channel, id)
  local done = current and redis.call('HSTRLEN', MSG .. name, field) > 0
  texts[#texts + 1] = current and not done and known[1] or false
end
return texts
