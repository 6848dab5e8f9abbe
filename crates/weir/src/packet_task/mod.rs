//! Packets with named values, for code that runs on the workers, keeps tables of its own, and writes rows:
//! scripts.
//!
//! A [`PacketTask`] takes the packets of a question on one worker. [`TaskValues`] are the fields that the
//! task names, and the key of each packet, both compiled into the program.
//!
//! * `values`: the fields of a text. `key`: the key as bytes. `worker`: the task on a worker, and its
//!   question.

mod key;
mod values;
mod worker;

pub use crate::items::task_rows::TaskRows;
pub use key::{KeyField, KeyLayout, KeyTable};
pub use values::{TaskField, TaskValues};
pub use worker::{PacketTask, TaskPacket};
