//! What is known about a connection: its identifiers, its record as Zeek's `conn.log` has it, and the places
//! of the record's numbers in the variables of a compiled program. Nothing here knows questions or workers.

pub(crate) mod conn_state;
pub(crate) mod connection;
pub(crate) mod end_places;
pub(crate) mod id;
pub(crate) mod locality;
pub(crate) mod places;
pub(crate) mod record;
pub(crate) mod tunnel_names;
