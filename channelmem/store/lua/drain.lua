-- Unlinks a few leftovers. ARGV: how many. Returns how many were taken; 0 means no work is left.
-- An id that is back in the order (cleared, then stored again) is no longer a leftover.

local left = tonumber(ARGV[1])
local taken = 0
while taken < left do
  local key = redis.call('SRANDMEMBER', DRAINS)
  if not key then break end
  local channel = string.match(string.sub(key, #DRAIN + 1), '^%w+')
  local popped = redis.call('ZPOPMIN', key, left - taken)
  if #popped == 0 then
    redis.call('SREM', DRAINS, key)
    retire(channel)
  end
  for i = 1, #popped, 2 do
    taken = taken + 1
    if not redis.call('ZSCORE', CHAN .. channel, popped[i]) then
      redis.call('UNLINK', MSG .. channel .. ':' .. popped[i])
    end
  end
end
return taken
