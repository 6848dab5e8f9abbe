-- QUIC by connection ID: a connection whose client changes its address or port is still one flow, and the change is a row.
-- The key is the beginning of the destination connection ID, which the packets of one direction share (RFC 9000, section 17).
--   weir script examples/scripts/quic.lua capture.pcap
local module = {
    filter = "ip and udp.port == 443",
    flowKeys = { "struct { uint8_t id[8]; }" },
    stateType = "struct { double first; uint64_t packets; uint32_t address; uint16_t port, migrations; }",
    columns = { "ts time", "event text", "id text", "address address", "port unsigned", "packets unsigned", "migrations unsigned" },
}

-- Where the UDP datagram begins in an Ethernet frame of IPv4.
local function udp(packet)
    if packet:u16(12) ~= 0x0800 then return end
    return 14 + packet:u8(14) % 16 * 4
end

function module.extractFlowKey(packet, keyBuf)
    local at = udp(packet)
    local first = at and packet:u8(at + 8)
    local key = weir.key(keyBuf, 1)
    if not first or first % 128 < 64 then return false end -- the fixed bit is 1
    if first < 128 then return packet:copy(key.id, at + 9, 8), 1 end -- a short header
    local length = packet:u8(at + 13)
    if not length or length < 8 then return false end
    return packet:copy(key.id, at + 14, 8), 1 -- a long header
end

local function row(event, flowKey, state, time)
    local id, address = {}, state.address
    for i = 0, 7 do id[i + 1] = ("%02x"):format(flowKey.id[i]) end
    local byte = function(power) return math.floor(address / power) % 256 end
    weir.row {
        ts = time, event = event, id = table.concat(id), port = state.port, packets = state.packets, migrations = state.migrations,
        address = ("%d.%d.%d.%d"):format(byte(2 ^ 24), byte(2 ^ 16), byte(256), byte(1)),
    }
end

function module.handlePacket(flowKey, state, packet, isFirstPacket)
    local address, port = packet:u32(26), packet:u16(udp(packet))
    local moved = not isFirstPacket and (state.address ~= address or state.port ~= port)
    if isFirstPacket then state.first = packet.time end
    state.packets, state.address, state.port = state.packets + 1, address, port
    if moved then
        state.migrations = state.migrations + 1
        row("migration", flowKey, state, packet.time)
    end
    return moved
end

function module.flowEnd(flowKey, state) row("flow", flowKey, state, state.first) end

return module
