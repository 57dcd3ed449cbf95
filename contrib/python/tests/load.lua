-- Load for wrk: each thread has one connection and runs a program again and again. Each answer becomes a line of the
-- output: the second of the start, the status and the latency in microseconds. wrk's own statistics do not tell the
-- latency of accepted requests from that of refused ones.
local ffi = require("ffi")
ffi.cdef [[
typedef struct { long seconds, nanoseconds; } moment;
int clock_gettime(int clock, moment *now);
]]
local CLOCK_MONOTONIC, PAUSE_MS = 1, 50
local threads = {}
local moment = ffi.new("moment")
local started, refused, began = nil, false, nil
answers, wrong = {}, 0

local function now()
    ffi.C.clock_gettime(CLOCK_MONOTONIC, moment)
    return tonumber(moment.seconds) * 1e6 + tonumber(moment.nanoseconds) / 1e3
end

function setup(thread)
    table.insert(threads, thread)
end

function init(arguments)
    started = now()
    wrk.method = "POST"
    wrk.path = "/v1/run"
    wrk.headers["Content-Type"] = "application/json"
    wrk.headers["Authorization"] = "Bearer " .. arguments[1]
    wrk.body = [[{"code": "sum(range(10**5))"}]]
end

function delay()
    return refused and PAUSE_MS or 0
end

function request()
    began = now()
    return wrk.format()
end

function response(status, headers, body)
    local ended = now()
    refused = status == 429
    local right = status == 200 and body:find('"value":"4999950000"', 1, true)
        or refused and tonumber(headers["Retry-After"] or headers["retry-after"] or 0) > 0
    if not right then wrong = wrong + 1 end
    table.insert(answers, string.format("%d %d %d", (began - started) / 1e6, status, ended - began))
end

function done(summary)
    for _, thread in ipairs(threads) do
        for _, answer in ipairs(thread:get("answers")) do print("answer " .. answer) end
        print("wrong " .. thread:get("wrong"))
    end
    local errors = summary.errors
    print(string.format("errors %d", errors.connect + errors.read + errors.write + errors.timeout))
end
