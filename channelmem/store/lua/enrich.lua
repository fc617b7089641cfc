-- Uses rules, attachments, enrichment.
-- Adds a description or transcript of an attachment to its message (lib/enrichment.lua). ARGV: the time, the limits of the
-- channel's policy, guild, channel, id, attachment, text. Returns 1 if the message carries the text now, 0 if there is
-- no such message or attachment to show.

local limits, guild, channel, id, attachment, text = limits_of(ARGV[2]), unpack(ARGV, 3, 7)
local parts = describable(guild, channel, id, limits)
local file = file_of(parts, attachment)
if not file then return 0 end
enrich(channel, id, parts, file, text)
return 1
