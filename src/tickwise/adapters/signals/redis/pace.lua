-- Count requests of callers (KEYS) by their paces. ARGV, for each key: seconds between two requests, how many seconds ahead
-- of now the caller may be, and how many requests there are. Answers how many are let through and how far ahead the caller
-- is then, for each. The clock is the server's, so that all processes go by the same.
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local found = {}
for number, key in ipairs(KEYS) do
  local interval, tolerance, wanted = tonumber(ARGV[3 * number - 2]), tonumber(ARGV[3 * number - 1]), tonumber(ARGV[3 * number])
  local known = tonumber(redis.call('GET', key) or '')
  local ahead = math.min(math.max((known or now) - now, 0), tolerance)
  local room = math.floor((tolerance - ahead) / interval + 0.000001)
  local granted = math.max(math.min(wanted, room), 0)
  if granted > 0 then
    ahead = ahead + granted * interval
    redis.call('SET', key, string.format('%.6f', now + ahead), 'PX', math.ceil(ahead * 1000) + 1)
  end
  found[#found + 1] = granted
  found[#found + 1] = string.format('%.6f', ahead)
end
return found
