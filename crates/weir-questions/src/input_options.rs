//! The options of a run: its input, and how its program is compiled.

use crate::compiled_in::HAS_OTLP;
use crate::local_users;
use crate::metrics::collector;
use crate::options;
use crate::quantity::{interval, number, seconds, share};
use std::ffi::OsString;
use std::path::PathBuf;
use weir::packet::Timestamp;

options! {
    /// The input, and how the program is compiled.
    #[derive(Clone)]
    pub struct Input {
        "Input" {
            /// Capture files (pcap, pcapng; plain, gzip, zstd, lz4), or `-` for standard input,
            /// `tcp://HOST:PORT` for a capture from a TCP connection, `tcp-listen:PORT` to wait for a sender
            /// on this host (`tcp-listen:ADDRESS:PORT`: on others, too). Packets over UDP: `udp://:PORT` from
            /// senders on this host, `udp://ADDRESS:PORT` from others, `tzsp://ADDRESS:37008` from routers.
            /// Packets of a recorder (`weir record`): `ring:` or `ring:NAME`. Several are merged by time
            read: Vec<OsString>, short('r'), shown("FILE"), takes_all();
            /// Capture on a network interface, or on all (`any`), until a signal.
            /// `dpdk:DEVICE[,ARGUMENT=VALUE…]`: on a device of DPDK. May be given several times. `weir
            /// interfaces` lists the interfaces
            interface: Vec<String>, short('i'), shown("NAME");
            /// Leave out copies of packets: a mirror port shows a packet once for each interface or VLAN that
            /// it passes. A packet is a copy if an equal one came at most 5 ms before, whatever its link
            /// header, VLAN tags and time to live
            dedup: bool;
            /// Read on as the last file grows, or is replaced by another one (as tail -F), until a signal
            follow: bool;
            /// With -r ring: packets from this time on: 14:02 (today, UTC), '2026-11-26 14:02:03', or -5m,
            /// five minutes ago
            from: Option<Timestamp>, shown("TIME"), minus();
            /// With -r ring: packets up to this time
            to: Option<Timestamp>, shown("TIME"), minus();
            /// The filter uses the syntax of pcap-filter(7)
            bpf: bool;
            /// Name of a stack, or a .weir file with one. Of several, the last stack is used, and must
            /// include the others. Default: `internet`, for general traffic; QUIC, the control connections of
            /// PPTP, and VXLAN on its old port have stacks of their own (`weir stacks`)
            stack: Vec<String>, shown("NAME|FILE.weir");
            /// Take connections with a port for a session protocol, whatever their bytes are: 'tcp.port ==
            /// 8443: tls'. May be given several times; the first match applies
            decode_as: Vec<String>, shown("FILTER:PROTOCOL");
            /// Look only at this share of the traffic (1/8), all connections between the hosts that are
            /// selected. On links the kernel discards the rest
            sample: Option<u32> => share, shown("SHARE");
        }
        "Capture" {
            /// Method of capture. af_packet: the kernel shows packets to Weir and to the machine's own
            /// programs. af_xdp: Weir takes all packets of the interface, as is right for a copy of traffic
            /// (a mirror port): the machine's own programs receive none
            method: String = "af_packet".to_string(), shown("METHOD"), one_of(&["af_packet", "af_xdp"]);
            /// Memory between the kernel and each worker, for each interface (64M)
            buffer: Option<String>, shown("BYTES"), minus();
            /// Do not make the interface promiscuous: it then receives what is sent to this host, or to all
            no_promiscuous: bool;
            /// The interface receives copies of traffic (a mirror port): drop packets that no question needs
            /// in the driver, where that costs least. The machine's own programs do not receive them either
            mirror: bool;
            /// Use the times of the network card's clock. Default: the times at which the kernel received the
            /// packets
            hardware_time: bool;
            /// Further arguments of DPDK (EAL parameters) for -i dpdk:DEVICE, in one word: '-m 1024'
            dpdk_eal: Option<String>, shown("WORDS"), minus();
            /// Continue as this user (and group), once the sockets are open. Outputs are opened as this user.
            /// Default for root: the user weir, or nobody, for whom another process opens files of root
            user: Option<String>, shown("NAME[:GROUP]"), of_command();
            /// Let the run write files below this directory, too, for questions that are added later. May be
            /// given several times. Default: only the directories of the outputs
            write_to: Vec<PathBuf>, shown("DIR"), of_command();
            /// Let the run read files below this directory, too, for questions that are added later: rules,
            /// scripts, lists. May be given several times. Default: only the captures and the files of the
            /// questions
            read_from: Vec<PathBuf>, shown("DIR"), of_command();
            /// Keep the rights of the start: capabilities, calls of the system, and files
            no_sandbox: bool, of_command();
        }
        "Output" {
            /// Print a line each second to standard error: rates, losses, flows, memory, and what becomes of
            /// packets
            monitor: bool, of_command();
            /// Serve the counters of the run for Prometheus, at http://ADDR/metrics, while the run goes on:
            /// :9464 (or 127.0.0.1:9464, this host alone), 0.0.0.0:9464 (everybody), :0 (a free port). A
            /// message names the address
            metrics: Option<String>, shown("ADDR"), of_command();
            /// Let this user of the machine (prometheus) read `--metrics` and connect to `-w tcp-listen:…`.
            /// Root and the user who starts weir always may. May be given several times
            allow_user: Vec<u32> => local_users::id_of, shown("NAME"), of_command();
            /// The group of new files and directories may read them, too (0640, 0750). Default: their owner
            /// alone
            group_read: bool, of_command();
            /// Send the counters of the run to this collector of OpenTelemetry, by OTLP over gRPC without TLS
            otlp: Option<String> => collector, shown("HOST[:4317]"), shown_if(HAS_OTLP), of_command();
            /// Time between two messages to the collector of --otlp, from 1 s to 24 h
            otlp_interval: f64 = 10.0 => interval, shown("TIME"), minus(), shown_if(HAS_OTLP), of_command();
        }
        "Advanced" {
            /// Number of workers. The order of rows of files does not depend on it. With more than one, a
            /// connection whose packets come through tunnels with different ends may become several rows
            workers: usize = 1 => workers, short('j'), shown("N");
            /// Bind the thread of each worker to one of these processors (0,2-3), in this order. Default: the
            /// system selects
            cpus: Option<String>, shown("LIST");
            /// End connections after this idle time (300, 300s, 5m, 1h), instead of their protocol's
            /// time-out. Unanswered and closed connections expire earlier. 0 disables the time-out
            idle_timeout: Option<f64> => seconds, shown("TIME"), minus();
            /// How receivers resolve overlapping segments and fragments: first (the default), last, bsd,
            /// bsd-right, linux, old-linux, windows, vista, solaris, hpux, hpux10, irix, macos; or for one
            /// network (10.0.0.0/8:windows). May be given several times; the longest prefix applies
            policy: Vec<String>, shown("[NETWORK:]POLICY");
            /// Reassembly mode. strict: as the receiver does, without damaged, stale, out-of-window and
            /// out-of-sequence segments; stops at the first permanent gap. fast: gaps are skipped and counted
            mode: String = "fast".to_string(), shown("MODE"), one_of(&["strict", "fast"]);
            /// Maximum number of flows in each table
            flows_max: usize = 1 << 24 => flows, shown("N");
            /// Memory of the run: flows, out-of-order segments, streams, sessions, packets that wait. If it
            /// is short, idle connections end first, then streams lose bytes. Default: half of the machine's
            /// memory
            memory: Option<String>, shown("BYTES"), minus();
            /// When memory is short, the bytes of each stream beyond this number are dropped first
            overload_cutoff: Option<String>, shown("BYTES"), minus();
            /// Wait this long for an output that accepts nothing (5, 500ms, 1m); then its rows are lost and
            /// counted, until it accepts rows again. Default: without limit for a single question, 5 s for
            /// several
            output_wait: Option<f64> => seconds, shown("TIME"), minus(), of_command();
            /// Connections that differ only in this value are one connection (vlan.id). Default: connections
            /// with equal addresses and ports are different if their VLANs, VXLAN or GENEVE networks, GRE
            /// keys, ERSPAN or PPPoE sessions differ (`weir explain` lists the values)
            ignore_context: Vec<String>, shown("FIELD"), separated();
            /// Connections that differ in this value are different (gtp.teid, frame.interface_id). If the
            /// value differs between the two directions, also if the value is vlan.id, each direction becomes
            /// a connection
            add_context: Vec<String>, shown("FIELD"), separated();
            /// Execution engine: auto, native, interpreter
            engine: String = "auto".to_string(), shown("ENGINE"), one_of(&["auto", "native", "interpreter"]);
            /// Disable an optimiser pass (`all`: every pass)
            without: Vec<String>, shown("PASS");
        }
    }
    beside {
        /// Copies of packets are counted, also if they are not left out.
        pub counts_copies: bool;
        /// Bytes of the ring of a recorder; 0: there is none.
        pub ring_bytes: u64;
        /// The run evaluates rules beside those of its questions.
        pub has_rules: bool;
    }
}

fn workers(text: &str) -> Result<usize, String> {
    number(text, 1.., 4)
}

fn flows(text: &str) -> Result<usize, String> {
    number(text, 1.., 1_000_000)
}
