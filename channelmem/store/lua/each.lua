-- Stands alone: asks one command about the same key of many buckets that this node serves. ARGV: command, prefix, key,
-- buckets separated by spaces, then what follows the key in the command. Returns a flat list of bucket, reply for
-- replies other than 0 and nil, and a list of buckets that are elsewhere or moving.

local found, elsewhere = {}, {}
for bucket in string.gmatch(ARGV[4], '%d+') do
  local reply = redis.pcall(ARGV[1], ARGV[2] .. ':{' .. bucket .. '}:' .. ARGV[3], unpack(ARGV, 5))
  if type(reply) == 'table' and reply.err then
    elsewhere[#elsewhere + 1] = tonumber(bucket)
  elseif reply and reply ~= 0 then
    found[#found + 1] = tonumber(bucket)
    found[#found + 1] = reply
  end
end
return { found, elsewhere }
