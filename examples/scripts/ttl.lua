-- Flows whose TTL changes: a packet may come from another sender than the others of its direction.
--   weir script examples/scripts/ttl.lua --trust -r capture.pcap --dumps suspects/
local module = {
    key = "flow",
    filter = "ip",
    fields = { "ip.ttl" },
    -- By direction: the TTL of the packet before, 0 before the first one; and the number of changes.
    stateType = "struct { uint8_t ttl[2]; uint16_t changes; }",
    columns = { "ts time", "src address", "dst address", "sport unsigned", "dport unsigned", "before unsigned", "ttl unsigned" },
    maxDumperRules = 100,
}

function module.handlePacket(flowKey, state, packet, isFirstPacket)
    local ttl, side = packet.ip_ttl, packet.direction
    local before = state.ttl[side]
    state.ttl[side] = ttl
    if before == 0 or before == ttl then return false end
    state.changes = state.changes + 1
    local src, sport, dst, dport = flowKey.src, flowKey.sport, flowKey.dst, flowKey.dport
    if side == 1 then
        src, sport, dst, dport = dst, dport, src, sport
    end
    weir.row { ts = packet.time, src = src, dst = dst, sport = sport, dport = dport, before = before, ttl = ttl }
    return true -- dump the flow: all of its packets, also those before this one
end

-- The packets of a flow, in the syntax of pcap-filter(7).
function module.buildPacketFilter(flowKey)
    local hosts = ("host %s and host %s"):format(flowKey.src, flowKey.dst)
    if not flowKey.sport then return hosts end
    return ("%s and port %d and port %d"):format(hosts, flowKey.sport, flowKey.dport)
end

return module
