//! Triggers of a recorder: connections that match a filter are dumped, from their first packet to their last
//! one.

use crate::dump_queue::DumpParams;
use crate::dumps::DumpAsker;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use weir::{Connection, Every, Hosts, Item, Next, Question, RunEnd, TakeItems};

/// A connection is dumped when timers tick next after the packet with which it matches.
const WITHIN_NS: u64 = 0;

/// Takes dumps, once the threads that write them are there.
#[derive(Clone, Default)]
pub struct PendingAsker(Arc<OnceLock<DumpAsker>>);

impl PendingAsker {
    /// The threads are there.
    pub fn set(&self, asker: DumpAsker) {
        let _ = self.0.set(asker);
    }

    /// The threads, once they are there.
    pub fn get(&self) -> Option<&DumpAsker> {
        self.0.get()
    }
}

/// A filter whose connections are dumped.
pub struct Trigger {
    filter: String,
    dumps: PendingAsker,
    /// The names of its dumps whose connections are not over.
    going: HashSet<String>,
}

impl Trigger {
    /// The trigger, and its question.
    pub fn new(filter: &str, dumps: PendingAsker) -> (Self, Question) {
        let trigger = Self { filter: filter.to_string(), dumps, going: HashSet::new() };
        (trigger, Question::of_records(filter, Every::Within(WITHIN_NS)))
    }
}

impl TakeItems for Trigger {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        let Item::Tracked { connection, is_over, .. } = item else { return Next::Go };
        let Some(dumps) = self.dumps.get() else { return Next::Go };
        if connection.hosts == Hosts::Addresses {
            let begun = dumps.begin(&connection.uid, None, || {
                dumps.list().matched(&self.filter, &connection.uid);
                DumpParams {
                    name: connection.uid.clone(),
                    filter: filter_of(&connection),
                    from: connection.ts,
                    reason: format!("weir: {} matches the trigger `{}`", connection.uid, self.filter),
                }
            });
            if is_over {
                dumps.end(&connection.uid);
                self.going.remove(&connection.uid);
            } else if begun {
                self.going.insert(connection.uid);
            }
        }
        Next::Go
    }

    fn finish(&mut self, end: Option<RunEnd<'_>>) {
        if let (None, Some(dumps)) = (end, self.dumps.get()) {
            dumps.leave(&self.going);
        }
    }
}

/// A filter for the packets of a connection between IP addresses.
fn filter_of(connection: &Connection) -> String {
    let Connection { orig_h, orig_p, resp_h, resp_p, proto, .. } = connection;
    filter_between(proto, (*orig_h, *orig_p), (*resp_h, *resp_p))
}

/// A filter for the packets of a protocol between two ends.
pub fn filter_between(proto: &str, orig: (IpAddr, u32), resp: (IpAddr, u32)) -> String {
    let ip = if orig.0.is_ipv4() { "ip" } else { "ipv6" };
    if !matches!(proto, "tcp" | "udp" | "udplite" | "sctp") {
        return format!("{ip}.addr == {} and {ip}.addr == {} and {proto}", orig.0, resp.0);
    }
    let direction = |(from, from_p): (IpAddr, u32), (to, to_p): (IpAddr, u32)| {
        format!(
            "({ip}.src == {from} and {proto}.srcport == {from_p} and {ip}.dst == {to} and {proto}.dstport == {to_p})"
        )
    };
    format!("{} or {}", direction(orig, resp), direction(resp, orig))
}
