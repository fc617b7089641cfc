-- Which of the messages that a search found may be shown, and what lies beside the best of them.
-- ARGV after read.lua's four: positions on either side, number of best, number of found, then per found message channel,
-- id, author; the best come first. Returns { times, rows }: per found message its exact time (the index rounds it), or
-- false; rows of neighbours that were not found themselves.

local radius, best, count = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local times, seen = {}, {}
for i = 1, count do
  local at = 5 + i * 3
  local channel, id, author = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  times[i] = not opted_out(GUILD_ID, author) and visible(channel, id)
  seen[channel] = seen[channel] or {}
  seen[channel][id] = true
end
local rows = {}
for i = 1, math.min(best, count) do
  if times[i] then beside(ARGV[5 + i * 3], ARGV[6 + i * 3], radius, seen, rows) end
end
return { times, rows }
