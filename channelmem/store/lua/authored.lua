-- Keys of an author's documents, oldest first. ARGV: author, how many at most.

local reply = redis.call('FT.SEARCH', IDX, '@author:{' .. ARGV[1] .. '}', 'NOCONTENT', 'SORTBY', 'ts', 'ASC',
  'LIMIT', 0, ARGV[2], 'DIALECT', 2)
table.remove(reply, 1)
return reply
