-- Uses refused, decisions.
-- What a person or a channel's manager decides, with the window in which nothing may be stored because of it.
-- ARGV: the time, how long windows are kept (s), kind, name:
--   out, forget       '<author>' or '<guild>:<author>' (opt_in.lua undoes it)
--   pause, resume     channel

redis.call('UNLINK', REFUSED .. ':none') -- needs no memory: a full Redis then lets the rest pass, which is a few bytes
local now, oldest, kind, name = ARGV[1], tonumber(ARGV[1]) - tonumber(ARGV[2]), ARGV[3], ARGV[4]
local kinds = {}

function kinds.out() decide_out(name, now, oldest) end

function kinds.forget() decide_forget(name, oldest) end

function kinds.pause()
  redis.call('HSETNX', POLICY, name .. ':paused', window_start(now)) -- a second pause does not shorten the first
  begin_window(name, redis.call('HGET', POLICY, name .. ':paused'), oldest)
end

function kinds.resume()
  local paused = redis.call('HGET', POLICY, name .. ':paused')
  if redis.call('HDEL', POLICY, name .. ':paused') == 1 then end_window(name, paused, now, oldest) end
end

kinds[kind]()
-- The windows of others end some day, too: whenever somebody decides something, a few are checked.
for _, one in ipairs(redis.call('HRANDFIELD', REFUSED, DIRECT)) do keep_windows(one, refused_windows(one), oldest) end
return 1
