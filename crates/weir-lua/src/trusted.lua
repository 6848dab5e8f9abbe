-- Calls of a module with FFI: loops over the packets of a batch, which LuaJIT compiles together with the module's functions.
-- Arguments: the module, the functions of Weir, and the layout of packets and keys. Returns the functions that trusted.rs calls.
local module, weir, layout = ...
local ffi, bit = require "ffi", require "bit"
local cast, copy, fill = ffi.cast, ffi.copy, ffi.fill
local band, lshift, bswap, rshift = bit.band, bit.lshift, bit.bswap, bit.rshift
local tonumber, type, error, format = tonumber, type, error, string.format

-- The layout of batch.rs.
ffi.cdef(format([[
    struct weir_packet {
        uint8_t *data;
        uint32_t captured, wire;
        int64_t _time;
        uint64_t _number;
        uint8_t *_key, *_state;
        uint8_t _first, _table, direction, _dump;
        uint32_t _unused;
        uint32_t _known[2];
        union { uint64_t _q[%d]; uint32_t _w[%d]; double _d[%d]; };
    };
    struct weir_check { uint8_t *key, *state; uint32_t table, expired; double time; };
]], layout.words, layout.words * 2, layout.words))

local function dotted(number)
    return format("%d.%d.%d.%d", rshift(number, 24), band(rshift(number, 16), 255), band(rshift(number, 8), 255), band(number, 255))
end

local function word(bytes, offset)
    return bswap(cast("uint32_t *", bytes + offset)[0]) % 4294967296
end

-- Values of fields, by what the field is; `at` is its first word.
local readers = {
    number = function(p, at) return p._w[at * 2] end,
    long = function(p, at) return p._q[at] end,
    bool = function(p, at) return p._w[at * 2] ~= 0 end,
    fraction = function(p, at) return p._d[at] end,
    seconds = function(p, at) return tonumber(cast("int64_t", p._q[at])) / 1e9 end,
    ipv4 = function(p, at) return dotted(p._w[at * 2]) end,
    layer = function(p, at) return layout.layers[p._w[at * 2] + 1] end,
    mac = function(p, at)
        local high, low = p._w[at * 2 + 1], p._w[at * 2]
        return format("%02x:%02x:%02x:%02x:%02x:%02x", rshift(high, 8), band(high, 255), rshift(low, 24),
            band(rshift(low, 16), 255), band(rshift(low, 8), 255), band(low, 255))
    end,
    address = function(p, at)
        return weir.address(p._w[at * 2 + 1], p._w[at * 2], p._w[at * 2 + 3], p._w[at * 2 + 2])
    end,
}

local methods, getters = {}, {
    time = function(p) return tonumber(p._time) / 1e9 end,
    number = function(p) return tonumber(p._number) end,
}
function methods.getTimestamp(p) return tonumber(p._time) / 1e9 end
function methods.getSize(p) return p.wire end
function methods.u8(p, offset)
    if offset >= 0 and offset < p.captured then return p.data[offset] end
end
function methods.u16(p, offset)
    if offset >= 0 and offset + 1 < p.captured then return p.data[offset] * 256 + p.data[offset + 1] end
end
function methods.u32(p, offset)
    if offset >= 0 and offset + 3 < p.captured then return word(p.data, offset) end
end
function methods.copy(p, to, offset, length)
    if offset < 0 or length < 0 or offset + length > p.captured then return false end
    copy(to, p.data + offset, length)
    return true
end

for number, field in ipairs(layout.fields) do
    local read, at = readers[field.kind], field.word
    local known, mask = (number - 1 >= 32) and 1 or 0, lshift(1, (number - 1) % 32)
    local function getter(p)
        if band(p._known[known], mask) ~= 0 then return read(p, at) end
    end
    getters[field.name], getters[field.other] = getter, getter
end
ffi.metatype("struct weir_packet", {
    __index = function(p, name)
        local method = methods[name]
        if method then return method end
        local getter = getters[name]
        if getter then return getter(p) end
        error("packets have no `" .. tostring(name) .. "`: name the field in `fields`", 2)
    end,
})

-- Keys that Weir finds.
local key_readers = {
    number = function(value) return value end,
    bool = function(value) return value ~= 0 end,
    fraction = function(value) return value end,
    seconds = function(value) return tonumber(value) / 1e9 end,
    ipv4 = dotted,
    layer = function(value) return layout.layers[value + 1] end,
    address = function(value) return weir.address(word(value, 0), word(value, 4), word(value, 8), word(value, 12)) end,
    mac = function(value) return format("%012x", tonumber(value)):gsub("(%x%x)(%x)", "%1:%2") end,
}
key_readers.long = key_readers.number
for number, key in ipairs(layout.keys) do
    local getters = {}
    for at, field in ipairs(key.fields) do
        local read, member, mask = key_readers[field.kind], "v" .. at, 2 ^ (at - 1)
        local function getter(k)
            if tonumber(k.known) % (mask * 2) >= mask then return read(k[member]) end
        end
        getters[field.name], getters[field.other] = getter, getter
    end
    ffi.cdef(format("struct weir_key_%d %s;", number, key.members))
    ffi.metatype("struct weir_key_" .. number, {
        __index = function(k, name)
            local getter = getters[name]
            if getter then return getter(k) end
            error("the key has no `" .. tostring(name) .. "`", 2)
        end,
    })
end

local state_type = ffi.typeof(module.stateType or "struct {}")
local state_pointer = ffi.typeof("$ *", state_type)
local names, key_types, key_pointers, key_sizes = module.flowKeys or {}, {}, {}, {}
for number = 1, #layout.keys do
    names[number] = "struct weir_key_" .. number
end
for number, name in ipairs(names) do
    key_types[number] = ffi.typeof(name)
    key_pointers[number] = ffi.typeof("$ *", key_types[number])
    key_sizes[number] = ffi.sizeof(key_types[number])
end

function weir.key(bytes, number)
    return cast(key_pointers[number], bytes)
end

local packets, checks, counts, places = ffi.typeof "struct weir_packet *", ffi.typeof "struct weir_check *", ffi.typeof "int32_t *", ffi.typeof "uint32_t *"
local calls = { key_sizes = key_sizes, state_size = ffi.sizeof(state_type) }
local extractFlowKey, handlePacket, checkExpiry, flowEnd = module.extractFlowKey, module.handlePacket, module.checkExpiry, module.flowEnd
local check_state = module.checkState or {}
local tables = #names

function calls.default_state()
    local state = ffi.new(state_type, module.defaultState or {})
    return ffi.string(state, calls.state_size)
end

-- `done` is the number of the packet that is being processed: after an error, trusted.rs goes on with the next one.
function calls.extract(records, first, count, done)
    local records, done = cast(packets, records), cast(counts, done)
    for number = first, count - 1 do
        done[0] = number
        local packet = records + number
        local ok, index = extractFlowKey(packet, packet._key)
        if ok then
            if type(index) ~= "number" or index < 1 or index > tables or index % 1 ~= 0 then
                error("extractFlowKey returned no index of `flowKeys` after true", 0)
            end
            packet._table = index
        end
    end
end

function calls.handle(records, order, first, count, done)
    local records, order, done = cast(packets, records), cast(places, order), cast(counts, done)
    for number = first, count - 1 do
        done[0] = number
        local packet = records + order[number]
        local key, state = cast(key_pointers[packet._table], packet._key), cast(state_pointer, packet._state)
        if handlePacket(key, state, packet, packet._first ~= 0) == true then
            packet._dump = 1
        end
    end
end

function calls.begin_check()
    if module.checkInitializer then module.checkInitializer(check_state) end
end

function calls.check(rows, first, count, done)
    local rows, done = cast(checks, rows), cast(counts, done)
    for number = first, count - 1 do
        done[0] = number
        local row = rows + number
        local expired, time = checkExpiry(cast(key_pointers[row.table], row.key), cast(state_pointer, row.state), check_state)
        if expired then
            row.expired, row.time = 1, tonumber(time) or 0
        end
    end
end

function calls.end_flows(rows, why, first, count, done)
    local rows, done = cast(checks, rows), cast(counts, done)
    for number = first, count - 1 do
        done[0] = number
        local row = rows + number
        flowEnd(cast(key_pointers[row.table], row.key), cast(state_pointer, row.state), why)
    end
end

function calls.end_check(kept, purged)
    if module.checkFinalizer then module.checkFinalizer(check_state, kept, purged) end
end

function calls.filter(key, number)
    return module.buildPacketFilter(cast(key_pointers[number], key))
end

return calls
