-- Uses rules, attachments, enrichment, descriptions.
-- Looks up what is known of attachments, and claims those that the caller may read now. ARGV: the time, guild, token, how
-- long a claim lasts in ms, then per attachment: room, message, its time, its author, attachment, key, reader, the
-- reader's rank, 1 if somebody refers to it. Returns per attachment { state, text, reader }:
--   known    the text, and who read it; that is empty after an edit of the message, which drops all but the text
--   failed   why, in place of the text; only for those that nobody refers to
--   claimed  to be read by the caller; 'loose' instead of a reader where the message is not stored, so nothing of it may be
--   busy     somebody else is at it
--   refused  by somebody who opted out, in a channel that is paused, or gone

local guild, token, claim_ms = unpack(ARGV, 2, 4)

local function is_gone(channel, id, ts)
  if redis.call('EXISTS', GONE .. channel .. ':' .. id) == 1 then return true end
  local own, left = unpack(redis.call('MGET', FLOOR .. channel, FLOOR .. guild))
  return tonumber(ts) <= math.max(tonumber(own or '-inf'), tonumber(left or '-inf'))
end

local function is_closed(channel)
  local parent = redis.call('HGET', THREADS, channel) or channel
  local paused, own, off = unpack(
    redis.call('HMGET', POLICY, channel .. ':paused', channel .. ':off', parent .. ':off')
  )
  return paused or own or off
end

local function text_in_message(channel, id, attachment)
  local about = redis.call('HGET', MSG .. channel .. ':' .. id, 'about')
  local file = about and file_of(opened(about), attachment)
  return file and file.text
end

local function look(channel, id, ts, author, attachment, key, reader, rank, pointed)
  local stored = redis.call('ZSCORE', CHAN .. channel, id)
  if is_closed(channel) or opted_out(guild, author) or (not stored and is_gone(channel, id, ts)) then
    return { 'refused' }
  end
  local made = MADE .. description_of(channel, key)
  local text, by, known_rank = unpack(redis.call('HMGET', made, 'text', 'reader', 'rank'))
  if text and (pointed ~= '1' or tonumber(known_rank or 0) >= tonumber(rank)) then return { 'known', text, by or '' } end
  local kept = not text and stored and text_in_message(channel, id, attachment)
  if kept then return { 'known', kept, '' } end
  local failure = pointed ~= '1' and redis.call('GET', failure_of(channel, key, reader))
  if failure then return { 'failed', failure } end
  if not redis.call('SET', lock_of(channel, key), token, 'NX', 'PX', claim_ms) then return { 'busy' } end
  return { 'claimed', '', stored and '' or 'loose' }
end

local replies = {}
for at = 5, #ARGV, 9 do replies[#replies + 1] = look(unpack(ARGV, at, at + 8)) end
return replies
