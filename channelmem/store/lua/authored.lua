-- Keys of an author's documents, a page at a time. ARGV: author, how many at most, cursor ('' for the first page).
-- Returns the cursor of the next page (0: there is none), then key, ts, key, ts...

local reply
if ARGV[3] == '' then
  reply = redis.call('FT.AGGREGATE', IDX, '@author:{' .. ARGV[1] .. '}', 'LOAD', 2, '@__key', '@ts',
    'WITHCURSOR', 'COUNT', ARGV[2], 'MAXIDLE', 60000, 'DIALECT', 2)
else
  reply = redis.call('FT.CURSOR', 'READ', IDX, ARGV[3], 'COUNT', ARGV[2])
end
local page = { tostring(reply[2]) }
for i = 2, #reply[1] do
  local row = reply[1][i]
  if #row == 4 then -- otherwise the document has expired
    page[#page + 1] = row[2]
    page[#page + 1] = row[4]
  end
end
return page
