-- Shared by the scripts that do as much as their time allows: others wait meanwhile, and how long one message takes
-- depends on the index. TIME stands still within a script, os.clock (processor time) does not.

-- A function that says whether less than some milliseconds have passed since now.
local function timer(ms)
  local last = os.clock() + ms / 1000
  return function() return os.clock() < last end
end
