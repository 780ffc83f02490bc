-- What wrk sends in case T3: one future job a request, each with a number of its own; it reports as one line of JSON.
local number = 0

function request()
  number = number + 1
  local body = string.format(
    '{"name":"bench %d","schedule_type":"FUTURE","schedule_time":"2031-01-01T00:00:00Z",' ..
    '"task":{"kind":"function","name":"bench.noop"},' ..
    '"payload":{"number":%d,"text":"what people send is about this long"}}', number, number)
  return wrk.format("POST", nil, { ["Content-Type"] = "application/json", ["Authorization"] = "Bearer " .. os.getenv("KEY") }, body)
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%f,"p50_ms":%f,"p99_ms":%f,"bad":%d,"broken":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
