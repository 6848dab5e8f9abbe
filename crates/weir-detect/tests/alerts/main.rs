//! Alerts of rules over packets.

mod backtracking;
mod early;
mod events;
mod rules;
mod support;
mod suricata;
