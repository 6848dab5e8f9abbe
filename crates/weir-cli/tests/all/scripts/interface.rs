//! What modules state, and what their functions get.

use crate::scripts::traffic::{Datagram, capture};
use crate::scripts::{FIRST_LIGHT, MODES, folder, number, rows, script, sorted, text, weir};

/// A module with the interface of FlowScope: named C types, two tables, a buffer that is cast, and a checker.
const FLOWSCOPE: &str = r#"
local ffi = require "ffi"
local lm = require "libmoon"
local log = require "log"
ffi.cdef [[
    struct counts { uint64_t packets; uint64_t bytes; };
    struct key4 { uint32_t src, dst; } __attribute__((__packed__));
    struct key6 { uint8_t src[16], dst[16]; } __attribute__((__packed__));
]]
local module = {}
module.mode = "direct"
module.flowKeys = { "struct key4", "struct key6" }
module.stateType = "struct counts"
module.defaultState = { packets = 1000 }
module.checkInterval = 1
module.checkState = { runs = 0 }
module.columns = { "table unsigned", "packets unsigned", "bytes unsigned", "first bool" }

function module.extractFlowKey(buf, keyBuf)
    local kind = buf:u16(12)
    if kind == 0x0800 then
        local key = ffi.cast("struct key4&", keyBuf)
        key.src, key.dst = buf:u32(26), buf:u32(30)
        return true, 1
    elseif kind == 0x86dd then
        ffi.copy(keyBuf, buf.data + 22, 32)
        return true, 2
    end
    return false
end

function module.handlePacket(flowKey, state, buf, isFirstPacket)
    state.packets = state.packets + 1
    state.bytes = state.bytes + buf:getSize()
    if isFirstPacket then assert(state.packets == 1001 and buf:getTimestamp() > 1e9) end
end

function module.checkInitializer(checkState)
    checkState.runs = checkState.runs + 1
end

function module.checkExpiry(flowKey, state, checkState)
    local is6 = ffi.istype("struct key6 *", flowKey)
    assert(is6 or ffi.istype("struct key4 *", flowKey))
    if lm.getTime() == 0 then return false end
    return false
end

function module.checkFinalizer(checkState, kept, purged)
    log:info("run %d: %d kept, %d purged", checkState.runs, kept, purged)
end

function module.flowEnd(flowKey, state)
    local is6 = ffi.istype("struct key6 *", flowKey)
    weir.row { table = is6 and 2 or 1, packets = state.packets - 1000, bytes = state.bytes, first = true }
end
return module
"#;

#[test]
fn a_module_of_flowscope_runs() {
    let folder = folder();
    let file = script(folder.path(), FLOWSCOPE);
    let output = weir(&["script", &file, "--trust", FIRST_LIGHT]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let rows: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |table: u64| {
        let mut of_table: Vec<(u64, u64)> = rows
            .iter()
            .filter(|row| number(row, "table") == table)
            .map(|row| (number(row, "packets"), number(row, "bytes")))
            .collect();
        of_table.sort_unstable();
        of_table
    };
    for (table, key) in [(1, "ip.src, ip.dst"), (2, "ipv6.src, ipv6.dst")] {
        let filter = if table == 1 { "eth.type == 0x800" } else { "eth.type == 0x86dd" };
        let aggregate = format!("count(), sum(frame.len) as bytes by {key}");
        let counted = crate::scripts::rows(&["aggregate", &aggregate, FIRST_LIGHT, filter]);
        let mut expected: Vec<(u64, u64)> =
            counted.iter().map(|row| (number(row, "count"), number(row, "bytes"))).collect();
        expected.sort_unstable();
        assert_eq!(of(table), expected, "table {table}");
    }
    assert!(
        said.contains(&format!("{} kept, 0 purged", rows.len())),
        "the last check sees all flows: {said}"
    );
}

#[test]
fn without_trust_there_is_no_ffi() {
    let folder = folder();
    let file = script(folder.path(), FLOWSCOPE);
    let output = weir(&["script", &file, FIRST_LIGHT]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("module.lua:2:"), "{}", text(&output.stderr));
}

#[test]
fn fields_have_their_values_and_absent_ones_are_nil() {
    let folder = folder();
    let file = script(
        folder.path(),
        r#"return {
            key = "src",
            fields = { "ip.ttl", "tcp.flags.syn", "tcp.dstport", "ip.src", "ipv6.src", "src", "eth.src", "tcp.seq", "proto" },
            columns = { "number unsigned", "ttl unsigned", "syn bool", "port unsigned", "v4 text", "v6 text", "src text", "mac text",
                "seq unsigned", "proto text", "key text" },
            handlePacket = function(key, state, packet)
                weir.row {
                    number = packet.number, ttl = packet.ip_ttl, syn = packet["tcp.flags.syn"], port = packet.tcp_dstport,
                    v4 = packet.ip_src, v6 = packet.ipv6_src, src = packet.src, mac = packet.eth_src, seq = packet.tcp_seq,
                    proto = packet.proto, key = key.src,
                }
            end,
        }"#,
    );
    let [without, with] = MODES.map(|mode| sorted(&[&["script", &file, FIRST_LIGHT], mode].concat()));
    assert_eq!(without, with);
    let all = rows(&["script", &file, FIRST_LIGHT]);
    let is_absent =
        |row: &serde_json::Value, column: &str| row.get(column).is_none_or(serde_json::Value::is_null);
    let has = |columns: [&str; 3]| {
        all.iter().filter(|row| columns.iter().all(|column| !is_absent(row, column))).count()
    };
    let counted = |filter| {
        text(&weir(&["packets", FIRST_LIGHT, filter, "--count"]).stdout)
            .trim()
            .parse::<usize>()
            .expect("a number")
    };
    assert_eq!(has(["syn", "port", "seq"]), counted("tcp"), "packets of TCP have its fields");
    assert_eq!(all.iter().filter(|row| row["v6"].is_string()).count(), counted("ipv6"));
    let of_ip = || all.iter().filter(|row| !is_absent(row, "src"));
    assert!(
        of_ip().all(|row| row["src"] == row["v4"] || row["src"] == row["v6"]),
        "an address of either version"
    );
    assert!(of_ip().count() > 1000 && all.iter().all(|row| row["key"] == row["src"]));
    assert!(all.iter().all(|row| row["mac"].as_str().is_some_and(|mac| mac.len() == 17)));
}

/// A module over flows by the first byte of the sender, which packets of all workers have.
fn shared(is_shared: bool) -> String {
    format!(
        r#"return {{
            key = "ip.src/8, ip.proto", shared = {is_shared}, checkInterval = 1,
            stateType = "struct {{ uint64_t packets, bytes; }}",
            columns = {{ "net text", "proto unsigned", "packets unsigned", "bytes unsigned" }},
            handlePacket = function(key, state, packet)
                state.packets, state.bytes = state.packets + 1, state.bytes + packet.wire
            end,
            checkExpiry = function() return false end,
            flowEnd = function(key, state)
                weir.row {{ net = key.ip_src, proto = key.ip_proto, packets = state.packets, bytes = state.bytes }}
            end,
        }}"#
    )
}

#[test]
fn workers_share_tables() {
    let folder = folder();
    let counted =
        rows(&["aggregate", "count(), sum(frame.len) as bytes by ip.src/8, ip.proto", FIRST_LIGHT, "ip"]);
    let mut expected: Vec<[u64; 3]> = counted
        .iter()
        .map(|row| [number(row, "ip.proto"), number(row, "count"), number(row, "bytes")])
        .collect();
    expected.sort_unstable();
    for mode in MODES {
        for workers in ["1", "2", "4"] {
            let file = script(folder.path(), &shared(true));
            let mut found: Vec<[u64; 3]> =
                rows(&[&["script", &file, FIRST_LIGHT, "ip", "-j", workers], mode].concat())
                    .iter()
                    .map(|row| [number(row, "proto"), number(row, "packets"), number(row, "bytes")])
                    .collect();
            found.sort_unstable();
            assert_eq!(found, expected, "-j {workers} {mode:?}");
        }
    }
    let file = script(folder.path(), &shared(false));
    let alone = rows(&["script", &file, FIRST_LIGHT, "ip"]);
    let many = rows(&["script", &file, FIRST_LIGHT, "ip", "-j", "4"]);
    assert_eq!(alone.len(), expected.len());
    assert!(many.len() > alone.len(), "without `shared`, each worker has flows of its own");
}

#[test]
fn full_tables_refuse_flows_and_count_packets() {
    let folder = folder();
    let file = script(
        folder.path(),
        "return { key = 'flow', maxFlows = 3, columns = { 'x' }, handlePacket = function() end,
            flowEnd = function() weir.row { x = 'flow' } end }",
    );
    let datagrams: Vec<Datagram<'_>> =
        (0..10).map(|at| Datagram { from: (1, 1000 + at), to: (2, 53), ttl: 64, payload: b"" }).collect();
    let capture = capture(folder.path(), &datagrams);
    for mode in MODES {
        let output = weir(&[&["script", &file, &capture], mode].concat());
        assert_eq!(text(&output.stdout).lines().count(), 3);
        assert!(text(&output.stderr).contains("7 packets have no flow"), "{}", text(&output.stderr));
    }
}

#[test]
fn mistakes_are_shown_where_they_are() {
    let folder = folder();
    let handle = "handlePacket = function() end";
    for (module, parts) in [
        (format!("return {{ key = 'flow', filter = 'tcp.prot == 443', {handle} }}"), ["tcp.prot", "^^^"]),
        (format!("return {{ key = 'ip.sorce', {handle} }}"), ["ip.sorce", "^^^"]),
        (
            format!("return {{ key = 'flow', fields = {{ 'ip.ttl', 'tcp.flgs' }}, {handle} }}"),
            ["tcp.flgs", "^^^"],
        ),
        (format!("return {{ key = 'flow', filter = 'tls', {handle} }}"), ["tls", "error"]),
        ("return { key = 'flow' }".into(), ["module.lua:", "no function `handlePacket"]),
        (format!("return {{ {handle} }}"), ["module.lua:", "no key"]),
        (
            format!("return {{ key = 'flow', flowKeys = {{ 'struct {{}}' }}, {handle} }}"),
            ["state one of both", "key"],
        ),
        (
            format!("return {{ key = 'flow', columns = {{ 'a number' }}, {handle} }}"),
            ["`number` is no type", "unsigned"],
        ),
        (format!("return {{ key = 'flow', checkInterval = 0, {handle} }}"), ["checkInterval", "0.01"]),
        (
            format!("return {{ key = 'flow', stateType = 'struct {{ uint64_t a[600]; }}', {handle} }}"),
            ["4096", "module.lua"],
        ),
        ("return 7".into(), ["returns no table", "return module"]),
        ("return {\n key = = 1 }".into(), ["module.lua:2:", "unexpected symbol"]),
        ("error('not today')".into(), ["module.lua:1: not today", "weir:"]),
        ("while true do end".into(), ["was stopped", "module.lua"]),
    ] {
        let output = weir(&["script", &script(folder.path(), &module), FIRST_LIGHT]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{module}: {said}");
        for part in parts {
            assert!(said.contains(part), "{module}: `{part}` in {said}");
        }
    }
    let file = script(
        folder.path(),
        &format!(
            "return {{ flowKeys = {{ 'struct {{ uint8_t a[300]; }}' }}, extractFlowKey = print, {handle} }}"
        ),
    );
    let said = text(&weir(&["script", &file, FIRST_LIGHT]).stderr);
    assert!(said.contains("a key has 300 bytes"), "{said}");
}

#[test]
fn modules_have_arguments_and_print() {
    let folder = folder();
    let file = script(
        folder.path(),
        "print('loaded', weir.args[1], #weir.args) return { key = 'flow', handlePacket = function() end }",
    );
    let output = weir(&["script", &file, FIRST_LIGHT, "--", "one", "two"]);
    assert!(text(&output.stderr).contains("loaded\tone\t2"), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_file_of_questions_may_ask_a_script() {
    let folder = folder();
    let file = script(folder.path(), &shared(false));
    let (questions, out) = (folder.path().join("q.toml"), folder.path().join("out.json"));
    let body = format!(
        "[[question]]\nname = 'nets'\nask = 'script'\nscript = '{file}'\nfilter = 'ip'\noutput = '{}'\n",
        out.display()
    );
    std::fs::write(&questions, body).expect("a file for tests");
    let output = weir(&["run", questions.to_str().expect("UTF-8"), "-r", FIRST_LIGHT]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = std::fs::read_to_string(out).expect("the output");
    assert_eq!(rows.lines().count(), crate::scripts::rows(&["script", &file, FIRST_LIGHT, "ip"]).len());
}
