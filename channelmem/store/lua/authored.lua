-- Keys of an author's documents, oldest first. ARGV after the common five: author, how many at most.

local reply = redis.call('FT.SEARCH', IDX, '@author:{' .. ARGV[6] .. '}', 'NOCONTENT', 'SORTBY', 'ts', 'ASC',
  'LIMIT', 0, ARGV[7], 'DIALECT', 2)
table.remove(reply, 1)
return reply
