-- What SORT returns for the newest messages of channels, for servers that do not allow SORT to read other keys
-- (an ACL user with key patterns, an older cluster). ARGV after the common five: number of fields, fields...,
-- channels... Returns per channel a flat list: id, fields, id, fields...

local count = tonumber(ARGV[6])
local names = { unpack(ARGV, 7, 6 + count) }
local replies = {}
for i = 7 + count, #ARGV do
  local flat = {}
  for _, id in ipairs(redis.call('ZREVRANGE', CHAN .. ARGV[i], 0, LIMITS.n - 1)) do
    flat[#flat + 1] = id
    local doc = redis.call('HMGET', MSG .. ARGV[i] .. ':' .. id, unpack(names))
    for at = 1, count do flat[#flat + 1] = doc[at] end
  end
  replies[#replies + 1] = flat
end
return replies
