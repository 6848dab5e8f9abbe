-- Records of flows, as an exporter of IPFIX writes them: one when a flow is idle for 15 s, and one each minute while it goes on.
--   weir script examples/scripts/statistics.lua capture.pcap --format csv
local module = {
    key = "flow", -- both directions
    stateType = "struct { double first, last; uint64_t packets, bytes; uint8_t swapped; }",
    columns = {
        "ts time", "duration interval", "src address", "sport unsigned", "dst address", "dport unsigned", "proto text",
        "packets unsigned", "bytes unsigned", "reason text",
    },
    checkInterval = 5,
}
local IDLE, ACTIVE = 15, 60

local function record(flowKey, state, reason)
    if state.packets == 0 then return end
    local src, sport, dst, dport = flowKey.src, flowKey.sport, flowKey.dst, flowKey.dport
    if state.swapped == 1 then -- the first packet comes from the second end of the key
        src, sport, dst, dport = dst, dport, src, sport
    end
    weir.row {
        ts = state.first, duration = state.last - state.first, src = src, sport = sport, dst = dst, dport = dport,
        proto = flowKey.proto, packets = state.packets, bytes = state.bytes, reason = reason,
    }
    state.packets, state.bytes = 0, 0
end

function module.handlePacket(flowKey, state, packet, isFirstPacket)
    if isFirstPacket then state.swapped = packet.direction end
    if state.packets == 0 then state.first = packet.time end
    state.last = packet.time
    state.packets = state.packets + 1
    state.bytes = state.bytes + packet.wire
end

-- Called for each flow every 5 s of the capture. Returns whether the flow is over, and the time of its last packet.
function module.checkExpiry(flowKey, state, checkState)
    if weir.now() - state.last >= IDLE then return true, state.last end
    if weir.now() - state.first >= ACTIVE then record(flowKey, state, "active") end
    return false
end

-- Called for each flow that leaves the table: it is "expired", or the run is at its "end".
function module.flowEnd(flowKey, state, why)
    record(flowKey, state, why == "expired" and "idle" or "end")
end

return module
