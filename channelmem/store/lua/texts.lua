-- Texts still to be embedded. ARGV: version of the vector field, then per message '<channel>:<id>', revision.
-- Returns per message its text, or nil if nothing is left to do.

local field = 'vec' .. ARGV[1]
local texts = {}
for at = 2, #ARGV, 2 do
  local name, rev = ARGV[at], ARGV[at + 1]
  local channel, id = string.match(name, '^(%w+):(%d+)$')
  local known = redis.call('HMGET', MSG .. name, 'text', 'about', field)
  local waits = known[2] and not known[3] and revision(known[2]) == rev and redis.call('ZSCORE', CHAN .. channel, id)
  texts[#texts + 1] = waits and known[1] or false
end
return texts
