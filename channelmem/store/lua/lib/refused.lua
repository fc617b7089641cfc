-- Shared by the scripts that know when nothing of a person or channel may be stored: while they were opted out, paused,
-- or before they asked to be forgotten. Per name '<from>/<to> <from>/<to>...', oldest first; the last may end at 'inf'.
-- Windows that ended before `oldest` are dropped.

local MOST_WINDOWS = 32 -- of one name; beyond that the oldest become one, which covers what lies between them

local function refused_windows(name)
  local windows = {}
  for from, to in string.gmatch(redis.call('HGET', REFUSED, name) or '', '(%S+)/(%S+)') do
    windows[#windows + 1] = { from, to }
  end
  return windows
end

local function keep_windows(name, windows, oldest)
  local kept = {}
  for _, window in ipairs(windows) do
    if tonumber(window[2]) >= oldest then kept[#kept + 1] = window end
  end
  while #kept > MOST_WINDOWS do
    kept[2][1] = kept[1][1]
    table.remove(kept, 1)
  end
  local text = {}
  for i, window in ipairs(kept) do text[i] = window[1] .. '/' .. window[2] end
  if #text == 0 then redis.call('HDEL', REFUSED, name) else redis.call('HSET', REFUSED, name, table.concat(text, ' ')) end
end

local function begin_window(name, start, oldest)
  local windows = refused_windows(name)
  local last = windows[#windows]
  if start == '-inf' then
    windows = { { start, 'inf' } }
  elseif not last or last[2] ~= 'inf' then
    windows[#windows + 1] = { start, 'inf' }
  end
  keep_windows(name, windows, oldest)
end

-- `start` is when it began if that was not noted.
local function end_window(name, start, now, oldest)
  local windows = refused_windows(name)
  local last = windows[#windows]
  if not last or last[2] ~= 'inf' then windows[#windows + 1] = { start, 'inf' } end
  windows[#windows][2] = now
  keep_windows(name, windows, oldest)
end

local has_refused = redis.call('EXISTS', REFUSED) == 1
local windows_of = {} -- read once per script
local function in_window(name, m)
  windows_of[name] = windows_of[name] or refused_windows(name)
  for _, window in ipairs(windows_of[name]) do
    local from, to = tonumber(window[1]), tonumber(window[2])
    if m.ts >= from and m.ts <= to or m.rev >= from and m.rev <= to and m.rev > 0 then return true end
  end
  return false
end

local function read_windows_again() has_refused, windows_of = true, {} end

-- Whether a message was said or edited while its author or channel refused to be stored: back-fill must not bring it.
-- `switch` is the room of a thread's channel, whose off switch applies besides its own.
local function was_refused(m, switch)
  if not has_refused then return false end
  return in_window(m.channel, m)
    or in_window('off:' .. switch, m)
    or switch ~= m.channel and in_window('off:' .. m.channel, m)
    or in_window(m.author, m)
    or in_window(m.guild .. ':' .. m.author, m)
end

local function end_optout(name, now, oldest)
  redis.call('SREM', RETURNING, name)
  if redis.call('SREM', OPTOUT, name) == 1 then end_window(name, '-inf', now, oldest) end
end
