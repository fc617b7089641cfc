-- Shared by the scripts that take what a person decides: decide.lua, and apply.lua for what Redis could not write at its
-- time. A name is '<author>' or '<guild>:<author>'. `now` is the time of the decision.

-- A window begins a second early: the platform's clock counts milliseconds and is not quite ours. What was stored stays.
local function window_start(now) return string.format('%.17g', tonumber(now) - 1) end

-- What was made of somebody's words goes at once, in every guild or in one.
local function unmake_of(name, why)
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

-- Whoever wanted to be back after a removal changed their mind.
local function decide_out(name, now, oldest)
  redis.call('SREM', RETURNING, name)
  local new = redis.call('SADD', OPTOUT, name) == 1
  -- Somebody who opted out before windows were kept did so at an unknown time.
  begin_window(name, (new or #refused_windows(name) > 0) and window_start(now) or '-inf', oldest)
  unmake_of(name)
  note_change('person', name)
end

-- What was said before is to be forgotten too.
local function decide_forget(name, oldest)
  redis.call('SREM', RETURNING, name)
  redis.call('SADD', OPTOUT, name)
  if redis.call('EXISTS', META) == 1 then -- a bucket that was never created has nothing to forget
    redis.call('SADD', FORGETTING, string.find(name, ':') and name or '*:' .. name)
  end
  begin_window(name, '-inf', oldest)
  unmake_of(name, 'gone')
  note_change('person', name)
end
