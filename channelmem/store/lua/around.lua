-- Uses rules, visible.
-- Messages within some positions of others in their channel's order, each once.
-- ARGV after lib/visible.lua's four: channel, positions on either side, number of known ids, these..., ids...
-- Returns rows, except of known ids: reading documents is most of the work.

local channel, radius, known = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local rows, seen = {}, { [channel] = {} }
for i = 8, 7 + known do seen[channel][ARGV[i]] = true end
for i = 8 + known, #ARGV do beside(channel, ARGV[i], radius, seen, rows) end
return rows
