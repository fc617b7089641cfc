-- What a person or a channel's manager decides, with the window in which nothing may be stored because of it.
-- ARGV: the time, how long windows are kept (s), kind, name:
--   out, forget, in   '<author>' or '<guild>:<author>'
--   pause, resume     channel

redis.call('UNLINK', REFUSED .. ':none') -- needs no memory: a full Redis then lets the rest pass, which is a few bytes
local now, oldest, kind, name = ARGV[1], tonumber(ARGV[1]) - tonumber(ARGV[2]), ARGV[3], ARGV[4]
-- A window begins a second early: the platform's clock counts milliseconds and is not quite ours. What was stored stays.
local since = string.format('%.17g', tonumber(now) - 1)
local MOST = 32 -- windows of one name; beyond that the oldest become one, which covers what lies between them

local function keep(one, windows)
  local kept = {}
  for _, window in ipairs(windows) do
    if tonumber(window[2]) >= oldest then kept[#kept + 1] = window end
  end
  while #kept > MOST do
    kept[2][1] = kept[1][1]
    table.remove(kept, 1)
  end
  local text = {}
  for i, window in ipairs(kept) do text[i] = window[1] .. '/' .. window[2] end
  if #text == 0 then redis.call('HDEL', REFUSED, one) else redis.call('HSET', REFUSED, one, table.concat(text, ' ')) end
end

local function begin(start)
  local windows = refused_windows(name)
  local last = windows[#windows]
  if start == '-inf' then
    windows = { { start, 'inf' } }
  elseif not last or last[2] ~= 'inf' then
    windows[#windows + 1] = { start, 'inf' }
  end
  keep(name, windows)
end

local function finish(start)
  local windows = refused_windows(name)
  local last = windows[#windows]
  if not last or last[2] ~= 'inf' then windows[#windows + 1] = { start, 'inf' } end
  windows[#windows][2] = now
  keep(name, windows)
end

-- What was made of somebody's words goes at once, in every guild or in one.
local function unmake_of(why)
  local guild, author = string.match(name, '^(%d+):(%d+)$')
  local names = {}
  for _, one in ipairs(redis.call('ZRANGE', QUOTING .. (author or name), 0, -1)) do
    if not guild or string.match(one, '/(%d+)c') == guild then
      names[one] = true
      redis.call('ZREM', QUOTING .. (author or name), one)
    end
  end
  unmake(names, why)
end

local kinds = {}

function kinds.out()
  local new = redis.call('SADD', OPTOUT, name) == 1
  -- Somebody who opted out before windows were kept did so at an unknown time.
  if new or #refused_windows(name) > 0 then begin(since) else begin('-inf') end
  unmake_of()
end

-- What was said before is to be forgotten too.
function kinds.forget()
  redis.call('SADD', OPTOUT, name)
  redis.call('SADD', FORGETTING, string.find(name, ':') and name or '*:' .. name)
  begin('-inf')
  unmake_of('gone')
end

kinds['in'] = function()
  if redis.call('SREM', OPTOUT, name) == 1 then finish('-inf') end
end

function kinds.pause()
  redis.call('HSETNX', POLICY, name .. ':paused', since) -- a second pause does not shorten the first
  begin(redis.call('HGET', POLICY, name .. ':paused'))
end

function kinds.resume()
  local paused = redis.call('HGET', POLICY, name .. ':paused')
  if redis.call('HDEL', POLICY, name .. ':paused') == 1 then finish(paused) end
end

kinds[kind]()
-- The windows of others end some day, too: whenever somebody decides something, a few are checked.
for _, one in ipairs(redis.call('HRANDFIELD', REFUSED, DIRECT)) do keep(one, refused_windows(one)) end
return 1
