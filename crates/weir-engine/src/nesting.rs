//! The connections that a packet runs in.
//!
//! A packet may have several lookups: of the connection of a tunnel and of the connection inside it, of parts
//! of a connection (streams that one transport multiplexes), and of connections inside messages that a stream
//! carries. A packet belongs to the innermost connection that is not a part of another one; a packet with
//! messages belongs to the connection that carries them.

use crate::flow_hit::FlowHit;

/// What has been found for one packet so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Nesting {
    /// The innermost connection of the packet or of the current message.
    connection: Option<FlowHit>,
    /// The connection around that one.
    outer: Option<FlowHit>,
    /// The connection whose stream carries the messages of the packet.
    carrier: Option<FlowHit>,
}

impl Nesting {
    /// The connection that the packet belongs to.
    #[inline]
    pub fn owner(&self) -> Option<FlowHit> {
        self.carrier.or(self.connection)
    }

    /// The connection around the innermost one.
    #[inline]
    pub fn outer(&self) -> Option<FlowHit> {
        self.outer
    }

    /// The connection whose stream carries the messages of the packet.
    #[inline]
    pub fn carrier(&self) -> Option<FlowHit> {
        self.carrier
    }

    /// Enters an observed flow. Returns whether the flow is now the innermost connection: a part of the
    /// connection that was found before is not.
    #[inline]
    pub fn enter(&mut self, flow: FlowHit, is_part: bool) -> bool {
        if is_part && self.connection.is_some() {
            return false;
        }
        self.outer = self.connection.replace(flow);
        true
    }

    /// Replaces the flow found last by a new flow. Returns whether the new flow is now the innermost
    /// connection: a part, or a flow that is not observed, restarts inside the connection that the packet
    /// belongs to.
    #[inline]
    pub fn restart(&mut self, flow: FlowHit) -> bool {
        let is_connection = self.connection.is_some_and(|connection| connection.table() == flow.table());
        if is_connection {
            self.connection = Some(flow);
        }
        is_connection
    }

    /// A message begins: flows found from now on are inside this message, and not inside the message before.
    #[inline]
    pub fn enter_message(&mut self) {
        self.carrier = self.owner();
        self.connection = self.carrier;
    }

    /// The messages of this connection are read.
    pub fn carry(&mut self, carrier: FlowHit) {
        self.carrier.get_or_insert(carrier);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FlowId;
    use weir_ir::graph::Table;

    fn flow(table: u32, id: u32) -> FlowHit {
        FlowHit::new(Table(table), FlowId(id), false, false)
    }

    #[test]
    fn a_packet_belongs_to_the_innermost_connection() {
        let mut nesting = Nesting::default();
        assert_eq!(nesting.owner(), None);
        assert!(nesting.enter(flow(0, 1), false));
        assert_eq!((nesting.owner(), nesting.outer()), (Some(flow(0, 1)), None));
        assert!(nesting.enter(flow(0, 2), false));
        assert_eq!((nesting.owner(), nesting.outer()), (Some(flow(0, 2)), Some(flow(0, 1))));
    }

    #[test]
    fn a_part_is_the_connection_only_where_there_is_no_other() {
        let mut nesting = Nesting::default();
        assert!(nesting.enter(flow(1, 1), true));
        assert!(!nesting.enter(flow(1, 2), true));
        assert_eq!((nesting.owner(), nesting.outer()), (Some(flow(1, 1)), None));
    }

    #[test]
    fn only_the_connection_restarts() {
        let mut nesting = Nesting::default();
        nesting.enter(flow(0, 1), false);
        nesting.enter(flow(1, 5), true);
        assert!(!nesting.restart(flow(1, 6)), "it is a part");
        assert_eq!(nesting.owner(), Some(flow(0, 1)));
        assert!(nesting.restart(flow(0, 2)));
        assert_eq!((nesting.owner(), nesting.outer()), (Some(flow(0, 2)), None));
    }

    #[test]
    fn with_messages_a_packet_belongs_to_their_carrier() {
        let mut nesting = Nesting::default();
        nesting.enter(flow(0, 1), false);
        nesting.enter_message();
        assert!(nesting.enter(flow(2, 8), false));
        assert_eq!((nesting.owner(), nesting.outer()), (Some(flow(0, 1)), Some(flow(0, 1))));
        // The next message is inside the carrier, not inside the message before.
        nesting.enter_message();
        assert!(nesting.enter(flow(2, 9), false));
        assert_eq!((nesting.carrier(), nesting.outer()), (Some(flow(0, 1)), Some(flow(0, 1))));
    }

    #[test]
    fn a_message_without_a_connection_around_it_has_no_carrier() {
        let mut nesting = Nesting::default();
        nesting.enter_message();
        assert_eq!((nesting.owner(), nesting.carrier()), (None, None));
        nesting.carry(flow(0, 3));
        nesting.carry(flow(0, 4));
        nesting.enter_message();
        assert_eq!((nesting.owner(), nesting.outer()), (Some(flow(0, 3)), None));
    }
}
