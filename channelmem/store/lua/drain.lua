-- Uses timer.
-- Unlinks leftovers for a while. ARGV: milliseconds. Returns how many were taken; 0 means no work is left.
-- An id that is back in the order (cleared, then stored again) is no longer a leftover.

local PAGE = 4
local in_time, taken = timer(ARGV[1]), 0
repeat
  local key = redis.call('SRANDMEMBER', DRAINS)
  if not key then break end
  local channel = string.match(string.sub(key, #DRAIN + 1), '^%w+')
  local popped = redis.call('ZPOPMIN', key, PAGE)
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
until not in_time()
return taken
