-- Shared by the scripts that know when nothing of a person or channel may be stored: while they were opted out, paused,
-- or before they asked to be forgotten. Per name '<from>/<to> <from>/<to>...', oldest first; the last may end at 'inf'.

local function refused_windows(name)
  local windows = {}
  for from, to in string.gmatch(redis.call('HGET', REFUSED, name) or '', '(%S+)/(%S+)') do
    windows[#windows + 1] = { from, to }
  end
  return windows
end
