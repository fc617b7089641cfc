-- Uses jobs.
-- How many messages are left to remove before an opt-in takes effect; -1 if none waits.
-- ARGV: author, how the opt-outs name the author ('' for any name).

if ARGV[2] ~= '' and redis.call('SISMEMBER', RETURNING, ARGV[2]) == 0 then return -1 end
if #wishes_of(ARGV[1]) == 0 then return -1 end
return left_of(jobs_of(ARGV[1]))
