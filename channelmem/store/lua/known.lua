-- The newest messages of a channel with their revisions, whoever wrote them. ARGV: channel, how many.
-- Returns a flat list: id, revision, id, revision...

local flat = {}
for _, id in ipairs(redis.call('ZREVRANGE', CHAN .. ARGV[1], 0, ARGV[2] - 1)) do
  local about = redis.call('HGET', MSG .. ARGV[1] .. ':' .. id, 'about')
  if about then
    flat[#flat + 1] = id
    flat[#flat + 1] = edited(about)
  end
end
return flat
