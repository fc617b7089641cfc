-- Uses jobs.
-- Keys of an author's documents, a page at a time. ARGV: author, how many at most, cursor ('' for the first page).
-- Returns the cursor of the next page (0: there is none), then key, ts, key, ts... What is being removed because the author
-- wants to be forgotten is left out: nobody gets it back any more.

local forgotten = {} -- guild or '*' -> true
for _, job in ipairs(jobs_of(ARGV[1])) do forgotten[string.match(job, '^[%d*]+')] = true end
if forgotten['*'] then return { '0' } end

local reply
if ARGV[3] == '' then
  reply = redis.call('FT.AGGREGATE', IDX, '@author:{' .. ARGV[1] .. '}', 'LOAD', 2, '@__key', '@ts',
    'WITHCURSOR', 'COUNT', ARGV[2], 'MAXIDLE', 60000, 'TIMEOUT', 0, 'DIALECT', 2) -- never a part of them
else
  reply = redis.call('FT.CURSOR', 'READ', IDX, ARGV[3], 'COUNT', ARGV[2])
end
local page = { tostring(reply[2]) }
for i = 2, #reply[1] do
  local row = reply[1][i]
  local guild = row and #row == 4 and string.match(string.sub(row[2], #MSG + 1), '^%d+') -- else expired
  if guild and not forgotten[guild] then
    page[#page + 1] = row[2]
    page[#page + 1] = row[4]
  end
end
return page
