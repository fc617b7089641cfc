-- Shared by the scripts that change settings: every process hears of it, and one that did not listen sees the count.

local function announce(place)
  redis.call('HINCRBY', LEVELS, place, 1)
  redis.call('HINCRBY', LEVELS, '*', 1)
  note_change('settings', place)
end
