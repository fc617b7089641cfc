-- What is still to embed. ARGV after the common five: version, then per message '<channel>:<id>', revision.
-- Returns per message its text, or nil where there is nothing left to do.

local field = 'vec' .. ARGV[6]
local texts = {}
for at = 7, #ARGV, 2 do
  local name, rev = ARGV[at], ARGV[at + 1]
  local channel, id = string.match(name, '^(%w+):(%d+)$')
  local known = redis.call('HMGET', MSG .. name, 'text', 'about', field)
  local waits = known[2] and not known[3] and revision(known[2]) == rev and redis.call('ZSCORE', CHAN .. channel, id)
  texts[#texts + 1] = waits and known[1] or false
end
return texts
