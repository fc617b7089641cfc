-- Shared by the scripts of derived.py. What is known of an attachment is something made (lib/derived.lua), called
-- 'description/<room>:<key>'. UNREAD says why a reader failed on it, READING who is at it; both expire soon.

local function description_of(channel, key) return 'description/' .. channel .. ':' .. key end
local function failure_of(channel, key, reader) return UNREAD .. channel .. ':' .. key .. ':' .. reader end
local function lock_of(channel, key) return READING .. channel .. ':' .. key end

local function unlock(channel, key, token)
  local lock = lock_of(channel, key)
  if redis.call('GET', lock) == token then redis.call('DEL', lock) end
end
