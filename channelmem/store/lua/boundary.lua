-- Uses announcements.
-- Begins a channel anew (/new). ARGV: place, its JSON document, ms until nothing older than it can be left.

redis.call('JSON.SET', SETTINGS .. ARGV[1], '$', ARGV[2])
redis.call('PEXPIRE', SETTINGS .. ARGV[1], ARGV[3])
announce(ARGV[1])
return 1
