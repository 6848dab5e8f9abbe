//! The library for programs: ask a question about network traffic, get packets, connections or sessions.
//!
//! * [`Engine`]: filters with callbacks, handlers, user-defined types; added and removed during a run. Begin
//!   here.
//! * [`Compiler`] turns a stack and questions into a [`Compiled`] program, on which the engine is built.
//! * [`run`](run()) runs it over a source of packets, on one worker or several, and delivers the results in
//!   capture order.
//! * [`explain`] shows every stage of the compilation.
#![forbid(unsafe_code)]

pub mod aggregate;
mod announced_rows;
mod balance;
mod batch_worker;
#[cfg(test)]
mod clock_step_tests;
mod compile;
mod conn_state;
mod connection;
mod contradiction;
mod decode_as;
mod deferred_predicate;
mod detail;
mod end_places;
mod engine;
mod events;
pub mod explain;
mod flow_id;
mod flow_inspector;
pub mod flow_task;
mod format_packet;
mod group_key;
mod handlers;
mod host_pairs;
mod ip_header;
mod isolation;
mod item;
mod joined_rows;
mod kernel_filters;
mod locality;
mod names;
mod odd_rows;
mod ordered_merge;
mod ordering;
mod outcome;
mod packet_classes;
mod packet_key;
mod packet_rows;
pub mod packet_task;
mod peak;
pub mod pipeline;
mod places;
mod processors;
mod program;
mod question;
mod question_worker;
mod record;
pub mod records;
mod row_filter;
mod row_limit;
mod row_times;
mod run;
mod session_rows;
mod skew;
mod split_run;
#[cfg(test)]
mod split_run_tests;
mod stats;
pub mod stream;
mod stream_handler;
mod subscription;
mod summed_rows;
mod sync;
mod task_rows;
mod ticked_worker;
mod timed_merge;
mod tunnel_names;
mod tunnel_rows;
mod units;
mod values;
mod vocabulary;
mod watch;
mod work_queues;
mod worker_loop;
mod worker_output;
mod worker_parts;
mod workers;
mod yielded;
mod yields;

// The expansion of `subscribe` names this crate `weir`, also inside of it.
extern crate self as weir;

pub use connection::COLUMNS as CONNECTION_COLUMNS;
pub use odd_rows::{odd_columns, odd_counts, odd_events, odd_names};
pub use row_filter::{RowFields, RowFilter};
pub use session_rows::Log;
pub use weir_compile::catalog::{RELATIVE_TIME, SAMPLES};
pub use weir_compile::connection_columns;

pub use compile::{Ask, Compiled, Compiler, Options, Timing};
pub use connection::{Connection, EndValues, Hosts};
pub use detail::{Dissector, FieldDetail, ItemDetail, LayerDetail, PacketDetail, PartDetail, shown_value};
pub use engine::{
    Callback, Checked, Control, Datum, Engine, EventRow, Every, Frame, Handler, Listed, Needs, Next, Reply,
    RunEnd, Segment, SessionData, SessionsOf, StreamBytes, StreamChunk, TakeItems, Track, TrackPacket,
    Tracked, WeakControl, run,
};
pub use events::EventRows;
pub use flow_inspector::{FlowInspector, InspectedPacket};
pub use format_packet::Path;
pub use host_pairs::{FlowWatch, HostPairs, PacketPair, longest_timeout};
pub use isolation::{CALLBACK_PANICS_MAX, CallbackPanics};
pub use item::{Bytes, Flow, Item, Notes, Rows, Shape};
pub use ordering::Ordering;
pub use outcome::Outcome;
pub use packet_classes::{PacketClasses, PacketClassifier};
pub use packet_key::PacketKey;
pub use packet_rows::PACKET_COLUMNS;
pub use processors::Processors;
pub use program::Executor;
pub use question::Question;
pub use record::ColumnMask;
pub use stats::{Connections, Stats, Talk, Tally, Volume, path_need, stats_asks};
pub use subscription::Subscription;
pub use tunnel_rows::tunnel_columns;
pub use watch::{Glance, Watch};
pub use weir_compile::events::EventSet;
pub use weir_compile::{Need, StackCatalog};
pub use weir_engine::clock::{Clock, ClockState};
pub use weir_engine::counters::Counters;
pub use weir_engine::memory::Memory;
pub use weir_engine::plan::{Limits, Want};
pub use weir_engine::question_losses::{LossCounts, QuestionLosses};
pub use weir_engine::sequence::{Policies, Policy};
pub use weir_engine::stage::{Stage, Stages};
pub use weir_io as io;
pub use weir_lang as lang;
pub use weir_link as link;
#[cfg(feature = "macros")]
/// Makes a function a subscription, whose filter the compiler checks:
///
/// ```
/// #[weir::subscribe("tls.sni == 'a.example'")]
/// fn log(hello: &weir::sessions::tls::TlsHandshake) {
///     println!("{:?}", hello.server_name());
/// }
/// ```
///
/// An unknown field, or a value of another type than the field's, is a compile error:
///
/// ```compile_fail
/// #[weir::subscribe("tls.sny == 'a.example'")]
/// fn log(hello: &weir::sessions::tls::TlsHandshake) {
///     println!("{:?}", hello.server_name());
/// }
/// ```
///
/// ```compile_fail
/// #[weir::subscribe("tls.sni == 443")]
/// fn log(hello: &weir::sessions::tls::TlsHandshake) {
///     println!("{:?}", hello.server_name());
/// }
/// ```
pub use weir_macros::subscribe;
pub use weir_match as patterns;
pub use weir_memory::Counted;
pub use weir_packet as packet;
pub use weir_sessions as sessions;
