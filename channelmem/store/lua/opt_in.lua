-- Uses jobs, refused.
-- Undoes an opt-out. While messages of the author are still being removed it only notes the wish, which forgotten.lua
-- fulfils: until then nothing tells new messages from old ones.
-- ARGV: the time, how long refused windows are kept (s), author, how the opt-outs name the author.
-- Returns how many messages are left to remove, or -1 if the opt-out is undone.
-- The first write needs no memory: a full Redis then lets the script finish.

redis.call('SREM', RETURNING, ARGV[4])
local jobs = jobs_of(ARGV[3])
if #jobs == 0 then
  end_optout(ARGV[4], ARGV[1], tonumber(ARGV[1]) - tonumber(ARGV[2]))
  return -1
end
redis.call('SADD', RETURNING, ARGV[4])
return left_of(jobs)
