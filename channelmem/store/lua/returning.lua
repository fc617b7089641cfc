-- How many messages are left to remove before an opt-in takes effect; -1 if none waits. ARGV: author.

if #wishes_of(ARGV[1]) == 0 then return -1 end
return left_of(jobs_of(ARGV[1]))
