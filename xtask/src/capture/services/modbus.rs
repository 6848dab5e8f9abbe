//! Modbus: mbpoll (libmodbus) and pymodbus query a controller simulated by pymodbus.

use super::Service;
use crate::capture::logs::{Row, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "modbus",
        shows: "mbpoll and pymodbus: coils, inputs, registers, read and written, one and many; two units and one that is not \
                there; an address that is not there; masks, a read with a write, device identification, diagnostics",
        script: SCRIPT,
    },
    tools: &[("mbpoll", "mbpoll python3-pymodbus python3-serial-asyncio")],
    files: &[
        ("modbus_server.py", include_str!("modbus_server.py")),
        ("modbus_client.py", include_str!("modbus_client.py")),
    ],
    stage: "",
    servers: &[(
        "server",
        "/usr/bin/python3 modbus_server.py 198.51.100.10 > modbus.log 2> modbus-error.log",
    )],
    listens: &["198.51.100.10:502"],
    ask: "",
    logs: &[("modbus", "requests (pymodbus)", requests)],
};

const SCRIPT: &str = "
poll() { mbpoll -1 -0 -q \"$@\" >> mbpoll.out 2>&1; }
A=198.51.100.10
poll -a 1 -t 4 -r 1 -c 5 $A; poll -a 1 -t 3 -r 7 -c 2 $A; poll -a 2 -t 0 -r 0 -c 12 $A; poll -a 2 -t 1 -r 3 -c 1 $A
poll -a 1 -t 4 -r 10 $A 42; poll -a 1 -t 4 -r 10 $A 1 2 3; poll -a 1 -t 0 -r 2 $A 1; poll -a 1 -t 0 -r 2 $A 1 0 1
poll -a 1,2 -t 4 -r 1 -c 2 $A
poll -a 1 -t 4 -r 300 $A || true; poll -a 9 -t 4 -r 1 $A || true
/usr/bin/python3 modbus_client.py $A >> modbus-client.out
";

/// Columns: port, transaction, unit, function, address, count, exception; written by `modbus_server.py`.
fn requests() -> Result<Vec<Row>> {
    let names = ["client_port", "transaction", "unit", "function", "address", "count", "exception"];
    let row = |line: &str| names.into_iter().zip(line.split('\t').map(String::from)).collect();
    Ok(read("modbus.log")?.lines().map(row).collect())
}
