//! A task: the packets that it reads, and of which pairs. A plan makes tasks, and a task is read elsewhere,
//! from its bytes.

use crate::coding::{Malformed, Reader, Writer};
use crate::index::{Pair, read_clock, write_clock};
use weir::ClockState;

const MAGIC: &[u8; 8] = b"WEIRTSK\x01";

/// What one task reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Task {
    /// The names of the captures.
    pub files: Vec<String>,
    /// What is wrong with captures of which no task reads packets.
    pub errors: Vec<String>,
    /// Pairs, and the pairs that they are read with.
    pub aliases: Vec<(Pair, Pair)>,
    /// The time of the first packet of all captures, nanoseconds since 1970.
    pub first_time: Option<i64>,
    /// What is read, in order.
    pub steps: Vec<Step>,
}

/// A section of the sequence of all packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The number in the run of the packet before the first one.
    pub packets_before: u64,
    /// The clock of the run before the first packet.
    pub clock: ClockState,
    /// The latest time that the clock has shown since the step before.
    pub clock_max: i64,
    /// Which packets are the task's.
    pub select: Select,
    /// What is read; several captures are merged by time.
    pub parts: Vec<Part>,
}

/// The packets of a step that belong to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Select {
    /// All but those of these pairs, which another task follows. The task reports damage.
    Except(Vec<Pair>),
    /// Those of these pairs, which the task follows.
    Only(Vec<Pair>),
}

/// Consecutive chunks of one capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its place among the task's names.
    pub file: u32,
    /// Its place among all captures: of packets at one time, those of the lowest place come first.
    pub place: u32,
    /// The time of the first packet, nanoseconds since 1970: reading begins when its turn comes.
    pub first_time: i64,
    /// The number in the run of the first interface of the bytes.
    pub first_interface: u32,
    /// Packets of the capture before the bytes.
    pub packets_before: u64,
    /// As in [`Index`](crate::Index).
    pub is_zstd: bool,
    /// As in [`Chunk`](crate::Chunk).
    pub start: u64,
    /// Stored bytes that are needed at most; `None`: perhaps all that follow.
    pub stored_bytes: Option<u64>,
    /// As in [`Chunk`](crate::Chunk).
    pub skip: u64,
    /// As in [`Chunk`](crate::Chunk).
    pub offset_bytes: u64,
    /// As in [`Chunk`](crate::Chunk).
    pub length_bytes: Option<u64>,
    /// The bytes of a header that come before.
    pub head: Vec<u8>,
}

impl Task {
    /// The task as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.list(&self.files, |out, name| out.bytes(name.as_bytes()));
        out.list(&self.errors, |out, error| out.bytes(error.as_bytes()));
        out.list(&self.aliases, |out, &(one, other)| {
            out.number(one.into());
            out.number(other.into());
        });
        out.list(self.first_time.as_slice(), |out, &time| out.signed(time));
        out.list(&self.steps, encode_step);
        [&MAGIC[..], &out.0].concat()
    }

    /// The task in bytes.
    ///
    /// # Errors
    /// The bytes are no task of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Reader(bytes.strip_prefix(MAGIC).ok_or(Malformed)?);
        let task = Self {
            files: from.list(Reader::text)?,
            errors: from.list(Reader::text)?,
            aliases: from.list(|from| Ok((from.narrow()?, from.narrow()?)))?,
            first_time: from.list(Reader::signed)?.pop(),
            steps: from.list(decode_step)?,
        };
        let files = task.files.len();
        let mut parts = task.steps.iter().flat_map(|step| &step.parts);
        if from.0.is_empty() && parts.all(|part| (part.file as usize) < files) {
            Ok(task)
        } else {
            Err(Malformed)
        }
    }
}

fn encode_step(out: &mut Writer, step: &Step) {
    out.number(step.packets_before);
    write_clock(out, &step.clock);
    out.signed(step.clock_max);
    let (kind, pairs) = match &step.select {
        Select::Except(pairs) => (0, pairs),
        Select::Only(pairs) => (1, pairs),
    };
    out.number(kind);
    out.set(pairs);
    out.list(&step.parts, |out, part| {
        let optional = |bytes: Option<u64>| bytes.map_or(0, |bytes| bytes.saturating_add(1));
        let numbers = [
            part.file.into(),
            part.place.into(),
            part.first_interface.into(),
            part.packets_before,
            part.is_zstd.into(),
            part.start,
            optional(part.stored_bytes),
            part.skip,
            part.offset_bytes,
            optional(part.length_bytes),
        ];
        numbers.into_iter().for_each(|number| out.number(number));
        out.signed(part.first_time);
        out.bytes(&part.head);
    });
}

fn decode_step(from: &mut Reader<'_>) -> Result<Step, Malformed> {
    Ok(Step {
        packets_before: from.number()?,
        clock: read_clock(from)?,
        clock_max: from.signed()?,
        select: match from.number()? {
            0 => Select::Except(from.set()?),
            1 => Select::Only(from.set()?),
            _ => return Err(Malformed),
        },
        parts: from.list(|from| {
            Ok(Part {
                file: from.narrow()?,
                place: from.narrow()?,
                first_interface: from.narrow()?,
                packets_before: from.number()?,
                is_zstd: from.number()? != 0,
                start: from.number()?,
                stored_bytes: from.number()?.checked_sub(1),
                skip: from.number()?,
                offset_bytes: from.number()?,
                length_bytes: from.number()?.checked_sub(1),
                first_time: from.signed()?,
                head: from.bytes()?.to_vec(),
            })
        })?,
    })
}
