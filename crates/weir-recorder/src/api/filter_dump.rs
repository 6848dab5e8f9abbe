//! Dumps of a filter: packets of the last seconds and of the next ones. Each is one question that reads the
//! recorder and follows it until the time of the dump is over, so filters about connections and sessions hold
//! across the whole time.

use super::past::Past;
use super::refusals::of_failure;
use crate::copy_packets::{self, Copy, Room, copy_packets};
use crate::dumps::{DumpAsker, create_file};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir::io::PcapngWriter;
use weir::io::ring::TimeRange;
use weir::packet::Timestamp;
use weir_questions::messages::Failure;
use weir_web::Refusal;

/// Dumps of filters at a time.
pub const FILTER_DUMPS_MAX: usize = 8;
/// Packets of the last moment come to the recorder this time later.
const LATE: Duration = Duration::from_millis(200);
/// How often a dump looks for its end.
const LOOK: Duration = Duration::from_millis(50);

/// The dumps of filters that go on.
pub struct FilterDumps {
    asker: DumpAsker,
    going: Mutex<Vec<Going>>,
}

struct Going {
    name: String,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl FilterDumps {
    pub fn new(asker: DumpAsker) -> Self {
        Self { asker, going: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Going>> {
        self.going.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a dump from `before` seconds ago until `after` seconds from now.
    pub fn begin(
        &self,
        past: &Arc<Past>,
        filter: &str,
        (before, after): (f64, f64),
    ) -> Result<Value, Refusal> {
        copy_packets::check(&past.compiler, filter).map_err(of_failure)?;
        let mut going = self.lock();
        going.retain(|one| !one.thread.is_finished());
        if going.len() >= FILTER_DUMPS_MAX {
            self.asker.counters().refused.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::too_many(format!(
                "{FILTER_DUMPS_MAX} dumps go on: wait for one, or end one"
            )));
        }
        let Some(room) = self.asker.admit() else {
            return Err(Refusal::too_many("the directory of dumps has the most files that it gets")
                .with_hint("remove some of them, or start weir record with another --dumps-max"));
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let ns = |seconds: f64| (seconds * 1e9) as i64;
        let times = TimeRange { first: now.saturating_sub(ns(before)), last: now.saturating_add(ns(after)) };
        let name = format!("{}-filter", weir::io::file_time(Timestamp(now)));
        let shown = if filter.trim().is_empty() { "all packets" } else { filter };
        let reason = format!("weir: on request: {shown} (from {before} s before to {after} s after)");
        let failed = |error: &dyn std::fmt::Display| Refusal::failed(error.to_string());
        let (path, file) =
            create_file(&self.asker.place().directory, &name).map_err(|error| failed(&error))?;
        let file_name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.asker.list().begun(&path, &file_name, &reason);
        let ends = Arc::<AtomicBool>::default();
        let due = Instant::now() + Duration::try_from_secs_f64(after).unwrap_or_default() + LATE;
        let work = Work {
            past: Arc::clone(past),
            asker: self.asker.clone(),
            filter: filter.to_string(),
            times,
            reason,
            path,
            ends: Arc::clone(&ends),
            due,
        };
        let thread = std::thread::Builder::new().name("weir-filter-dump".into());
        let thread = thread.spawn(move || work.run(file, room)).map_err(|error| failed(&error))?;
        going.push(Going { name: file_name.clone(), ends, thread });
        Ok(json!({ "name": file_name, "reason": shown, "until": times.last as f64 / 1e9 }))
    }

    /// Ends the dump with this name. `false`: there is none.
    pub fn end(&self, name: &str) -> bool {
        let going = self.lock();
        let found = going.iter().find(|one| one.name == name && !one.thread.is_finished());
        found.iter().for_each(|one| one.ends.store(true, Ordering::Release));
        found.is_some()
    }

    /// Ends all dumps, and completes their files.
    pub fn finish(&self) {
        let going = std::mem::take(&mut *self.lock());
        going.iter().for_each(|one| one.ends.store(true, Ordering::Release));
        for one in going {
            if one.thread.join().is_err() {
                say!("weir: the dump {} has failed", one.name);
            }
        }
    }
}

/// What the thread of a dump does.
struct Work {
    past: Arc<Past>,
    asker: DumpAsker,
    filter: String,
    times: TimeRange,
    reason: String,
    path: PathBuf,
    ends: Arc<AtomicBool>,
    due: Instant,
}

impl Work {
    fn run(self, file: File, room: Room) {
        let (ends, due) = (Arc::clone(&self.ends), self.due);
        let timer = std::thread::Builder::new().name("weir-dump-end".into()).spawn(move || {
            while !ends.load(Ordering::Acquire) && Instant::now() < due {
                std::thread::sleep(LOOK);
            }
            ends.store(true, Ordering::Release);
        });
        let copied = match timer {
            Ok(_) => self.copy(file, room),
            Err(error) => Err(Failure::new(error)),
        };
        self.ends.store(true, Ordering::Release);
        let counters = self.asker.counters();
        let is_complete = copied.is_ok();
        match copied {
            Ok(packets) => {
                counters.written.fetch_add(1, Ordering::Relaxed);
                counters.packets.fetch_add(packets, Ordering::Relaxed);
            }
            Err(failure) => {
                counters.failed.fetch_add(1, Ordering::Relaxed);
                say!(
                    "weir: {}: {failure}; the dump lacks packets, and keeps the name `.part`",
                    self.path.display()
                );
            }
        }
        self.asker.list().ended(&self.path, is_complete);
    }

    fn copy(&self, file: File, mut room: Room) -> Result<u64, Failure> {
        let (reader, selection) = self.past.reader(self.times, Arc::clone(&self.ends), true);
        let mut writer = PcapngWriter::new(file).with_comment(&self.reason);
        writer.begin().map_err(Failure::new)?;
        let mut packets = 0;
        let (filter, from) = (self.filter.clone(), Timestamp(i64::MIN));
        let copy = Copy { filter, from, writer: &mut writer, packets: &mut packets, room: Some(&mut room) };
        let copied = copy_packets(reader, &self.past.compiler, vec![copy]);
        self.asker.list().wrote(&self.path, packets);
        self.asker.counters().lost.fetch_add(selection.lost(), Ordering::Relaxed);
        copied?;
        writer.finish().map_err(Failure::new)?;
        if room.is_cut() {
            return Err(Failure::new("there is no room for further packets (--dumps-max)"));
        }
        fs::rename(&self.path, self.path.with_extension("")).map_err(Failure::new)?;
        Ok(packets)
    }
}
