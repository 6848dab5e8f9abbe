//! Packets over UDP as the bytes of a pcapng file: everything behind is the same as for other captures.

use crate::sink::PcapngWriter;
use crate::tcp::explain_unbound;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use weir_packet::PacketMeta;
use weir_udp::{Arrivals, Name, Receiver};

/// Reads the packets that arrive at a port. It never ends.
pub(crate) struct Arriving {
    receiver: Receiver,
    /// The packets of the last datagrams.
    file: PcapngWriter<Vec<u8>>,
    /// The bytes of them that were read.
    read: usize,
}

impl Arriving {
    /// Opens the port. Losses are counted in `arrivals`.
    pub fn bind(name: &Name, arrivals: Arc<Arrivals>) -> io::Result<Self> {
        let receiver = Receiver::bind(name, arrivals)?;
        let mut file = PcapngWriter::new(vec![]);
        file.begin()?;
        file.flush()?;
        Ok(Self { receiver, file, read: 0 })
    }

    /// The local addresses and ports.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.receiver.addresses()
    }

    /// Bytes that datagrams may occupy in the kernel; `None`: unknown.
    pub fn buffer_bytes(&self) -> Option<usize> {
        self.receiver.buffer_bytes()
    }
}

impl Read for Arriving {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Self { receiver, file, read } = self;
        while file.inner().len() == *read {
            file.inner().clear();
            *read = 0;
            let mut written = Ok(());
            receiver.receive(&mut |packet| {
                let meta = PacketMeta {
                    time: packet.time,
                    // A packet is shorter than `PACKET_BYTES_MAX`.
                    captured_bytes: packet.frame.len() as u32,
                    wire_bytes: packet.wire_bytes,
                    link: packet.link,
                    ..PacketMeta::default()
                };
                if written.is_ok() {
                    written = file.write(&meta, packet.frame);
                }
            })?;
            written.and_then(|()| file.flush())?;
        }
        let rest = &file.inner()[*read..];
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        *read += n;
        Ok(n)
    }
}

/// Explains that a port cannot be opened, with a remedy.
pub(crate) fn explain_port(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::InvalidInput => error.to_string(),
        _ => explain_unbound(error),
    }
}
