//! Names of session protocols that stand for their server ports.

use weir::Compiler;

/// A filter for the server ports of a session protocol. Options that divide streams or packets into classes
/// take the name of a protocol for its ports: the class must be known at the first packet, and the protocol
/// is recognised later. `None`: no protocol with ports has the name.
pub fn service(name: &str, compiler: &Compiler, bpf: bool) -> Option<String> {
    // A layer's name is already a filter.
    if compiler.stack().layers.iter().any(|layer| layer.protocol.filter_name == name) {
        return None;
    }
    let sessions = compiler.sessions();
    let ports = sessions.protocol(sessions.number_of(name)?).ports;
    if ports.is_empty() {
        return None;
    }
    if bpf {
        return Some(ports.iter().map(|port| format!("port {port}")).collect::<Vec<_>>().join(" or "));
    }
    let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    Some(format!("tcp.port in {{{ports}}} or udp.port in {{{ports}}}"))
}
