-- What SORT returns for the newest messages of channels, where SORT may not read other keys (an ACL user with key
-- patterns, a cluster). ARGV: messages per channel, number of fields, fields..., channels... Returns per channel a flat
-- list (id, fields, id, fields...), how many people opted out, and the newest change.

local count = tonumber(ARGV[2])
local names = { unpack(ARGV, 3, 2 + count) }
local replies = {}
for i = 3 + count, #ARGV do
  local flat = {}
  for _, id in ipairs(redis.call('ZREVRANGE', CHAN .. ARGV[i], 0, ARGV[1] - 1)) do
    flat[#flat + 1] = id
    local doc = redis.call('HMGET', MSG .. ARGV[i] .. ':' .. id, unpack(names))
    for at = 1, count do flat[#flat + 1] = doc[at] end
  end
  replies[#replies + 1] = flat
end
return { replies, redis.call('SCARD', OPTOUT), newest_change() }
