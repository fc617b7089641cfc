-- Stores something made of messages that is no message itself (lib/derived.lua). ARGV: the time, the limits of the policy,
-- guild, name, text, sources. Returns 1, or 0 if one of its sources no longer stands.

local limits, guild, name, text, given = limits_of(ARGV[2]), unpack(ARGV, 3, 6)
local sources = sources_of(guild, given, limits)
redis.call('UNLINK', MADE .. name)
if not sources or not next(sources) then return 0 end
redis.call('HSET', MADE .. name, 'text', text)
tie(name, MADE .. name, sources)
return 1
