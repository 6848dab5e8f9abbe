//! The library for programs: ask a question about network traffic, get packets, connections or sessions.
//!
//! * [`Engine`]: filters with callbacks, handlers, user-defined types; added and removed during a run. Begin
//!   here.
//! * [`Compiler`] turns a stack and questions into a [`Compiled`] program, on which the engine is built.
//! * [`run`](run()) runs it over a source of packets, on one worker or several, and delivers the results in
//!   capture order.
//! * [`explain`] shows every stage of the compilation.
#![forbid(unsafe_code)]

// The table in README.md says what each folder is for. A folder uses only those below it in that table.
pub mod aggregate;
mod ask;
mod divide;
mod engine;
pub mod explain;
mod flow;
pub mod flow_task;
mod handlers;
mod items;
mod merge;
mod outcome;
pub mod packet_task;
pub mod pipeline;
pub mod records;
mod rows;
mod run;
mod stats;
pub mod stream;
mod sync;
mod watch;
mod worker;

// The expansion of `subscribe` names this crate `weir`, also inside of it.
extern crate self as weir;

pub use ask::row_filter::{RowFields, RowFilter};
pub use flow::connection::COLUMNS as CONNECTION_COLUMNS;
pub use rows::odd::{odd_columns, odd_counts, odd_events, odd_names};
pub use rows::session::Log;
pub use weir_compile::catalog::{RELATIVE_TIME, SAMPLES};
pub use weir_compile::connection_columns;

pub use ask::compile::{Ask, Compiled, Compiler, Options, Timing};
pub use ask::ordering::Ordering;
pub use ask::packet_key::PacketKey;
pub use ask::processors::Processors;
pub use ask::program::Executor;
pub use ask::question::Question;
pub use divide::header_finder::HeaderFinder;
pub use divide::host_pairs::{FlowWatch, HostPairs, PacketPair, longest_timeout};
pub use divide::packet_classes::{PacketClasses, PacketClassifier};
pub use engine::of_program::run;
pub use engine::{
    Callback, Checked, Control, Datum, Engine, EventRow, Every, Frame, Handler, Listed, Needs, Next, Reply,
    RunEnd, Segment, SessionData, SessionsOf, StreamBytes, StreamChunk, TakeItems, Track, TrackPacket,
    Tracked, WeakControl,
};
pub use explain::detail::{
    Dissector, FieldDetail, ItemDetail, LayerDetail, PacketDetail, PartDetail, shown_value,
};
pub use flow::connection::{Connection, EndValues, Hosts};
pub use flow::record::ColumnMask;
pub use handlers::flow_inspector::{FlowInspector, InspectedPacket};
pub use handlers::isolation::{CALLBACK_PANICS_MAX, CallbackPanics};
pub use handlers::subscription::Subscription;
pub use items::item::{Bytes, Flow, Item, Rows};
pub use outcome::Outcome;
pub use rows::events::EventRows;
pub use rows::format_packet::Path;
pub use rows::packet::PACKET_COLUMNS;
pub use rows::shape::{Notes, Shape};
pub use rows::tunnel::tunnel_columns;
pub use stats::{Connections, Stats, Talk, Tally, Volume, path_need, stats_asks};
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
pub use weir_sandbox as sandbox;
pub use weir_sessions as sessions;
