-- Replaces what was set aside for a call by what it cost. ARGV: day, room, the difference in micro-dollars.
-- No room gives back more than it has: the page may have been flushed and begun anew, and nobody may give back what
-- others spent.

local page, room = SPEND .. ARGV[1], ARGV[2]
local own = redis.call('HGET', page, room)
if not own then return 0 end
-- + 0, because minus zero would be written as '-0', which Redis takes for no number.
local change = string.format('%.0f', math.max(tonumber(ARGV[3]), -tonumber(own)) + 0)
redis.call('HINCRBY', page, room, change)
redis.call('HINCRBY', page, '*', change)
return 1
