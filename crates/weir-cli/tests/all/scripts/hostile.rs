//! Modules that harm themselves: they are stopped or fail, which is counted, and the capture goes on.

use crate::scripts::{FIRST_LIGHT, folder, script, text, weir};
use std::time::{Duration, Instant};

/// Runs a module without trust, whose `handlePacket` has this body, over 15 packets. Returns the messages.
fn run(body: &str) -> String {
    let folder = folder();
    let module = format!(
        "local packets = 0\nreturn {{ key = 'flow', columns = {{ 'n unsigned' }}, frames = true, stateType = 'struct {{ uint8_t a[4]; double b; }}',\n\
         handlePacket = function(key, state, packet, first)\n{body}\nend }}"
    );
    let file = script(folder.path(), &module);
    let begin = Instant::now();
    let output = weir(&["script", &file, FIRST_LIGHT, "icmp"]);
    let said = text(&output.stderr);
    assert!(begin.elapsed() < Duration::from_secs(20), "{body}: {:?}", begin.elapsed());
    assert_eq!(output.status.code(), Some(0), "{body}: {said}");
    said
}

#[test]
fn calls_that_never_end_are_stopped() {
    for body in [
        "while true do end",
        "for i = 1, 1e18 do end",
        "repeat until false",
        "local function f() return f() end return f()",
        "while true do pcall(function() while true do end end) end",
        "pcall(function() pcall(function() pcall(function() while true do end end) while true do end end) while true do end end)",
        "local t = setmetatable({}, { __index = function(t, k) return t[k + 1] end }) pcall(function() return t[1] end) while true do end",
        "local t = setmetatable({}, { __eq = function() while true do end end }) return t == setmetatable({}, getmetatable(t))",
        "error(setmetatable({}, { __tostring = function() while true do end end }))  ",
        "('x'):rep(1000):gsub('.', function() while true do end end)",
        "table.sort({ 3, 2, 1 }, function() while true do end end)",
        "return tostring(setmetatable({}, { __tostring = function() while true do end end }))",
    ] {
        let said = run(body);
        // An error object is shown by its type: its functions are not called.
        let is_object = body.starts_with("error(set");
        assert_eq!(said.contains("script_stopped"), !is_object, "{body}: {said}");
        assert!(said.contains("15 calls of the script failed"), "{body}: {said}");
        if !is_object {
            assert!(said.contains("took more than 100 ms"), "{body}: {said}");
        }
    }
}

#[test]
fn memory_has_a_bound() {
    for body in [
        "local t = {} while true do t[#t + 1] = ('x'):rep(1e6) .. #t end",
        "return ('x'):rep(1e9)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "return table.concat({ ('x'):rep(3e7), ('y'):rep(3e7), ('z'):rep(3e7) })",
    ] {
        let said = run(body);
        // The time may be over before the memory is.
        let is_memory = said.contains("not enough memory") || said.contains("took more than 100 ms");
        assert!(said.contains("15 of them were stopped") && is_memory, "{body}: {said}");
    }
    // What is kept from call to call has the same bound.
    let said =
        run("all = all or {} for i = 1, 20 do all[#all + 1] = ('x'):rep(1e6) .. packet.number .. i end");
    assert!(said.contains("not enough memory"), "{said}");
}

#[test]
fn failures_show_the_first_message_with_its_line() {
    for (body, message) in [
        ("error('broken')", "module.lua:4: broken"),
        ("local x = nil; x.y = 1", "module.lua:4: attempt to index"),
        ("error({ code = 7 })", "the error is no text, but of the type table"),
        ("error()", "the error is no text, but of the type nil"),
        ("error(function() end)", "of the type function"),
        ("local function f() return 1 + f() end f()", "stack overflow"),
        ("return packet.nothing", "module.lua:4: packets have no `nothing`"),
        ("return key.nothing", "module.lua:4: the key has no `nothing`"),
        ("state.c = 1", "module.lua:4: the struct has no member `c`"),
        ("state.b = 'text'", "a member is a number"),
        ("state.b = {}", "a member is a number"),
        ("state.a[4] = 1", "`a` has the elements 0 to 3"),
        ("state.a[-1] = 1", "`a` has the elements 0 to 3"),
        ("state.a = 1", "`a` is an array"),
        ("weir.row { n = 'many' }", "the column `n` cannot have this value"),
        ("weir.row(7)", "module.lua:4: weir.row takes a table"),
        ("(' '):rep(3000):find((' *'):rep(20) .. 'b')", "too many repetitions"),
        ("packet:copy(state, 0, 4)", "packets are copied to arrays"),
        ("packet:copy(state.a, 0, 5)", "`a` has no room for 5 bytes"),
        ("coroutine.wrap(error)()", "'coroutine'"),
        ("return os.getenv('HOME')", "'os'"),
        ("return io.open('/etc/passwd')", "'io'"),
        ("return require('ffi')", "'require'"),
        ("return load('return 1')", "'load'"),
        ("return loadstring('return 1')", "'loadstring'"),
        ("return string.dump(error)", "'dump'"),
        ("return setfenv(1, {})", "'setfenv'"),
        ("return newproxy(true)", "'newproxy'"),
        ("return debug.getregistry()", "'debug'"),
        ("return jit.on()", "'jit'"),
        ("getmetatable('').__index = nil", "attempt to index a boolean"),
        ("getmetatable(packet).__index = nil", "attempt to index"),
    ] {
        let said = run(body);
        assert!(said.contains(message), "{body}: `{message}` in {said}");
        assert!(said.contains("15 calls of the script failed"), "{body}: {said}");
    }
}

#[test]
fn nonsense_that_is_returned_changes_nothing() {
    for body in [
        "return 7",
        "return 'true'",
        "return {}",
        "return function() end",
        "return nil, nil",
        "return true, 1, 2, 3",
    ] {
        let said = run(body);
        // `true` asks for a dump, which needs `buildPacketFilter`: there is none.
        assert!(!said.contains("failed"), "{body}: {said}");
    }
    let folder = folder();
    let failing = |extract: &str| {
        let module = format!(
            "return {{ flowKeys = {{ 'struct {{ uint8_t a; }}' }}, extractFlowKey = function(packet, keyBuf) {extract} end, \
             handlePacket = function() end, checkInterval = 1, checkExpiry = function() return 'yes', 'never' end }}"
        );
        text(&weir(&["script", &script(folder.path(), &module), FIRST_LIGHT, "icmp"]).stderr)
    };
    for extract in [
        "return true",
        "return true, 2",
        "return true, 0",
        "return true, 1.5",
        "return true, 'one'",
        "return 1, {}",
    ] {
        let said = failing(extract);
        assert!(said.contains("extractFlowKey returned no index"), "{extract}: {said}");
    }
    assert_eq!(failing("return true, 1"), "");
}

#[test]
fn a_module_that_always_fails_is_not_called_any_more() {
    let folder = folder();
    for mode in crate::scripts::MODES {
        let module = "return { key = 'flow', handlePacket = function() error('always') end }";
        let file = script(folder.path(), module);
        let output = weir(&[&["script", &file, FIRST_LIGHT], mode].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("has failed 100 times") && said.contains("module.lua:1: always"), "{said}");
    }
}

#[test]
fn printing_and_rows_have_bounds() {
    let said = run("for i = 1, 2e4 do print(('x'):rep(10)) end");
    assert!(
        said.contains("lines of the script are not printed") || said.contains("script_stopped"),
        "{said}"
    );
    let folder = folder();
    let module = "return { key = 'flow', columns = { 'n unsigned' }, handlePacket = function() for i = 1, 70000 do weir.row { n = i } end end }";
    let file = script(folder.path(), module);
    let output = weir(&["script", &file, "--trust", FIRST_LIGHT, "icmp"]);
    assert!(text(&output.stderr).contains("script_rows_refused"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count() % 65_536, 0);
}
