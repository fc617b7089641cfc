-- Undoes an opt-out. While messages of the author are still being removed it only notes the wish, which forgotten.lua
-- fulfils: until then nothing tells new messages from old ones. ARGV: author, how the opt-outs name the author.
-- Returns how many messages are left to remove, or -1 if the opt-out is undone.
-- The first write needs no memory: a full Redis then lets the script finish.

redis.call('SREM', RETURNING, ARGV[2])
local jobs = jobs_of(ARGV[1])
if #jobs == 0 then
  redis.call('SREM', OPTOUT, ARGV[2])
  return -1
end
redis.call('SADD', RETURNING, ARGV[2])
return left_of(jobs)
