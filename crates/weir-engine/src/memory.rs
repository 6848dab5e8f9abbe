//! What a worker holds, by its owner.

macro_rules! owners {
    ($($name:ident, $text:literal;)*) => {
        /// Bytes of memory by their owner. At their peaks, which different owners have at different times; over several workers an upper
        /// bound, the sum of theirs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Memory {
            $(#[doc = $text] pub $name: u64,)*
        }

        impl Memory {
            /// Adds another worker's.
            pub fn merge(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// What is held now may be more than it was at any time before.
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
    tables, "The flow tables, whose memory is used again, not returned.";
    reassembly, "Segments and fragments that wait for their turn.";
    streams, "Chunks of streams, and bytes that wait for their filter.";
    sessions, "Parsers of sessions, and first bytes of connections whose protocol is not known yet.";
    messages, "Unfinished messages in streams.";
    held_packets, "Packets that wait until their connection is decided.";
}
