//! The memory of a worker, by its owner.

macro_rules! owners {
    ($($name:ident, $text:literal;)*) => {
        /// Bytes of memory by their owner. Peak values may be from different times, so the sum over several
        /// workers is an upper bound.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Memory {
            $(#[doc = $text] pub $name: u64,)*
        }

        impl Memory {
            /// Adds the memory of another worker.
            pub fn merge(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Raises the peaks to the current values where these are larger.
            #[inline]
            pub(crate) fn raise(&mut self, now: &Self) {
                $(self.$name = self.$name.max(now.$name);)*
            }

            /// Name, bytes and meaning of each owner.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64, &'static str)> {
                [$((stringify!($name), self.$name, $text),)*].into_iter()
            }
        }
    };
}

owners! {
    tables, "The flow tables, whose memory is reused and not returned.";
    reassembly, "Segments and fragments that wait for missing bytes.";
    streams, "Chunks of streams, and bytes that wait for their filter.";
    sessions, "Session parsers, and the first bytes of connections whose protocol is not known yet.";
    held_sessions, "Sessions that wait for the record of their connection.";
    messages, "Unfinished messages in streams.";
    held_packets, "Packets that wait until their connection is decided or their datagram is complete.";
    joined_rows, "Rows that wait for the other half of their exchange, and announced ends of connections.";
}
