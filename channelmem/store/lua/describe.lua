-- Uses rules, attachments, sources, enrichment, descriptions.
-- Keeps what was read of an attachment, and ends the claim. ARGV: the time, the limits of the channel's policy, guild,
-- room, message, attachment, key, token, text, reader, rank, bytes, how long it is kept in ms. Returns 1 if it is kept,
-- or was known from a better reader; 0 if its message is gone.

local limits, guild, channel, id, attachment, key, token = limits_of(ARGV[2]), unpack(ARGV, 3, 8)
local text, reader, rank, bytes, keep_ms = unpack(ARGV, 9, 13)
unlock(channel, key, token)
local parts = describable(guild, channel, id, limits)
local file = file_of(parts, attachment)
if not file then return 0 end
local name = description_of(channel, key)
local known = redis.call('HGET', MADE .. name, 'rank')
if known and tonumber(known) > tonumber(rank) then return 1 end
-- As the message is now: its picture is the same, whatever was said of it meanwhile.
local sources = sources_of(guild, channel .. ':' .. id .. ':' .. (tonumber(parts.revision) or 0), limits)
if not sources then return 0 end
redis.call('UNLINK', MADE .. name, failure_of(channel, key, reader))
redis.call('HSET', MADE .. name, 'text', text, 'reader', reader, 'rank', rank, 'at', ARGV[1], 'bytes', bytes,
  'attachment', attachment)
tie(name, MADE .. name, sources)
redis.call('PEXPIRE', MADE .. name, keep_ms, 'LT')
if text ~= '' then enrich(channel, id, parts, file, text) end
return 1
