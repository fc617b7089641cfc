-- Shared by the scripts that decide what is kept or visible: lifetimes, limits and opt-outs. ARGV[1]: the time.

local NOW = tonumber(ARGV[1])

-- The limits of a policy arrive as one argument (documents.py packs it): max_messages, buffer_s, archive_s, archive,
-- summary_s, undo_until. An archive that was switched off is hidden at once, and `kept` until that can't be undone.
-- The same text always gives the same table, so tables can be compared.
local known_limits = {}
local function limits_of(text)
  local limits = known_limits[text]
  if not limits then
    local n, buffer_s, archive_s, archive, summary_s, undo_until =
      string.match(text, '^(%S+) (%S+) (%S+) (%d) (%S+) (%S+)$')
    limits = { n = tonumber(n), buffer_s = tonumber(buffer_s), archive_s = tonumber(archive_s) }
    limits.summary_s = tonumber(summary_s)
    limits.archive = archive == '1'
    limits.kept = limits.archive or NOW < tonumber(undo_until)
    limits.life_s = limits.kept and limits.archive_s or limits.buffer_s -- of documents
    known_limits[text] = limits
  end
  return limits
end

local optouts = redis.call('SCARD', OPTOUT) > 0
local function opted_out(guild, author)
  if not optouts then return false end
  return redis.call('SISMEMBER', OPTOUT, author) == 1
      or redis.call('SISMEMBER', OPTOUT, guild .. ':' .. author) == 1
end

-- A document's time to live: never longer than a lifetime from now, whatever the clock did; with jitter, so that a
-- burst does not expire all at once.
local function longest_jitter_s(life_s) return math.min(60, life_s * 0.02) end
local function ttl_ms(ts, id, life_s)
  local left_s = life_s - math.max(0, NOW - ts)
  local jitter_s = longest_jitter_s(life_s) * tonumber(string.sub(id, -3)) / 1000
  return math.max(1, math.floor((left_s + jitter_s) * 1000))
end

-- A channel's order lives as long as any of its documents, even those stored under a longer lifetime than today's.
local function prolong(channel, life_s)
  local ms = math.ceil((life_s + longest_jitter_s(life_s)) * 1000)
  if redis.call('PEXPIRE', CHAN .. channel, ms, 'GT') == 0 then redis.call('PEXPIRE', CHAN .. channel, ms, 'NX') end
end
