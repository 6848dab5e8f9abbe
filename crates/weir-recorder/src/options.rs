//! The options of a recorder, and what they say.

use std::path::PathBuf;
use std::time::Duration;
use weir::PacketClasses;
use weir::io::ring::recorders::{self, DEFAULT};
use weir::io::ring::{RING_BYTES_MIN, Retention, SPOOL_BYTES_MIN, SpoolParams, check_class};
use weir_questions::messages::Failure;
use weir_questions::options;
use weir_questions::quantity::{bytes, classified, seconds};

options! {
    /// The options of a recorder beside those of its input.
    #[derive(Clone)]
    pub struct RecorderOptions {
        "" {
            /// Memory for packets. The oldest packets make room for new ones
            ring: String = "1G".to_string(), shown("BYTES");
            /// The name of the recorder: `-r ring:NAME` reads it
            name: String = DEFAULT.to_string() => checked_name, shown("NAME");
            /// Write all packets to files in this directory, too: what has left the memory stays readable
            spool: Option<PathBuf>, shown("DIR");
            /// The most bytes of these files; the oldest are removed
            spool_size: String = "100G".to_string(), shown("BYTES"), needs("spool");
            /// Remove files that were written longer ago
            spool_age: Option<f64> => seconds, shown("TIME"), needs("spool");
            /// Keep packets that match this filter in files of their own, in the directory NAME of the spool,
            /// with this size and age. May be given several times; the first filter that a packet matches
            /// counts
            keep: Vec<String>, shown("NAME=FILTER:BYTES[/TIME]"), needs("spool");
            /// Dump connections that match this filter, from their first packet on, to a file each. May be
            /// given several times
            trigger: Vec<String>, shown("FILTER"), needs("dumps");
            /// Dump the packets of each group of this aggregate while its rows come, for example `count() by
            /// ip.dst every 1s having count > 1000 where tcp.flags.syn == 1`. May be given several times
            threshold: Vec<String>, shown("AGGREGATE [where FILTER]"), needs("dumps");
            /// Dump the connection of each alert of these rules, from its first packet on: a file, or a
            /// directory whose files end in `.rules`. May be given several times
            rules: Vec<PathBuf>, shown("PATH"), needs("dumps");
            /// Dump connections with an address, a network or a name of this file, which has one in each line
            /// (198.51.100.7, 2001:db8::/32, bad.example): names are those that clients ask for in DNS, TLS,
            /// QUIC and HTTP. May be given several times
            indicators: Vec<PathBuf>, shown("FILE"), needs("dumps");
            /// The time before and after the windows of a threshold that is dumped, too; after the last alert
            /// of a connection
            around: String = "10s/10s".to_string() => checked_around, shown("TIME[/TIME]"), needs("dumps");
            /// The directory of dumps
            dumps: Option<PathBuf>, shown("DIR");
            /// The most bytes and files of dumps in the directory, and the longest time of one: 10G,
            /// 10G/5000, 10G/5000/24h. Default: 10 000 files of an hour each, and 100G or half of the free
            /// space, whichever is less
            dumps_max: Option<String>, shown("BYTES[/FILES[/TIME]]"), needs("dumps");
            /// Serve the API of the recorder over HTTP, at http://ADDR/api/v1/: 9465 (or 127.0.0.1:9465,
            /// [::1]:9465). A message has the address with a new token. Other hosts can ask only with
            /// --api-token-file. unix:PATH: at a socket file instead, for those to whom its rights (0600) are
            /// given
            api: Option<String>, shown("[HOST:]PORT|unix:PATH");
            /// The file with the token that clients of the API need: at least 16 letters in its first line.
            /// Only its owner may be able to read it
            api_token_file: Option<PathBuf>, shown("FILE");
            /// Serve a page for browsers, too, at the address of --api. Default: 127.0.0.1:9465
            page: bool;
        }
    }
    beside {}
}

/// The time around the windows in which a group exceeds its threshold.
#[derive(Debug, Clone, Copy)]
pub struct Around {
    /// Before the first window.
    pub before: Duration,
    /// After the last one.
    pub after: Duration,
}

/// The longest time around the windows of a threshold.
const AROUND_MAX: Duration = Duration::from_hours(30 * 24);

impl RecorderOptions {
    /// Bytes of the ring.
    ///
    /// # Errors
    /// The option states none, or too few.
    pub fn ring_bytes(&self) -> Result<usize, Failure> {
        let ring_bytes = usize::try_from(bytes("--ring", &self.ring)?).unwrap_or(usize::MAX);
        match ring_bytes < RING_BYTES_MIN {
            true => Err(Failure::new(format!("--ring: give at least {}M", RING_BYTES_MIN >> 20))),
            false => Ok(ring_bytes),
        }
    }

    /// The spool, and the filters of its classes.
    ///
    /// # Errors
    /// What an option states wrongly.
    pub fn spool_params(&self) -> Result<(Option<SpoolParams>, Vec<String>), Failure> {
        let age_max = self.spool_age.map(Duration::try_from_secs_f64).transpose();
        let age_max = age_max.map_err(|_| Failure::new("--spool-age: give a time, for example 24h"))?;
        let rest = Retention { bytes_max: spool_bytes("--spool-size", &self.spool_size)?, age_max };
        let (classes, filters) = classes(&self.keep)?.into_iter().unzip();
        let spool = self.spool.clone().map(|directory| SpoolParams { directory, rest, classes });
        Ok((spool, filters))
    }

    /// The time around what dumps begin with.
    ///
    /// # Errors
    /// The option states none.
    pub fn around(&self) -> Result<Around, Failure> {
        around(&self.around).map_err(|why| Failure::new(format!("--around: {why}")))
    }
}

fn age(text: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(seconds(text)?).map_err(|_| "give a time, for example 24h".to_string())
}

/// The time before and after, or one for both.
fn around(text: &str) -> Result<Around, String> {
    let (before, after) = text.split_once('/').unwrap_or((text, text));
    let around = Around { before: age(before)?, after: age(after)? };
    match around.before.max(around.after) > AROUND_MAX {
        true => Err("give at most 30d".to_string()),
        false => Ok(around),
    }
}

fn checked_around(text: &str) -> Result<String, String> {
    around(text).map(|_| text.to_string())
}

fn checked_name(text: &str) -> Result<String, String> {
    recorders::check_name(text).map(|()| text.to_string())
}

fn spool_bytes(option: &str, text: &str) -> Result<u64, Failure> {
    let bytes = bytes(option, text)?;
    match bytes < SPOOL_BYTES_MIN {
        true => Err(Failure::new(format!("{option}: give at least {}M", SPOOL_BYTES_MIN >> 20))),
        false => Ok(bytes),
    }
}

/// A class of `--keep`: name and bounds, and the filter.
type Class = ((String, Retention), String);

/// The classes of `--keep`.
fn classes(keep: &[String]) -> Result<Vec<Class>, Failure> {
    let mut classes: Vec<Class> = vec![];
    for text in keep {
        let wrong = |why: String| Failure::new(format!("--keep {text}: {why}"));
        let form = "give a name, a filter and a size, for example `--keep 'dns=udp.port == 53:100G/90d'`";
        let (name, rest) = text.split_once('=').ok_or_else(|| wrong(form.to_string()))?;
        check_class(name).map_err(&wrong)?;
        let (Some(filter), bounds) = classified(rest) else { return Err(wrong(form.to_string())) };
        let (size, time) = bounds.split_once('/').map_or((bounds, None), |(size, time)| (size, Some(time)));
        let bytes_max = spool_bytes("--keep", size)?;
        let age_max = time.map(age).transpose().map_err(&wrong)?;
        if filter.trim().is_empty() || age_max.is_some_and(|age| age.is_zero()) {
            return Err(wrong(form.to_string()));
        }
        if classes.iter().any(|((known, _), _)| known == name) {
            return Err(wrong(format!("there is another class `{name}`")));
        }
        classes.push(((name.to_string(), Retention { bytes_max, age_max }), filter.to_string()));
    }
    if classes.len() > PacketClasses::FILTERS_MAX {
        return Err(Failure::new(format!("--keep: at most {} classes", PacketClasses::FILTERS_MAX)));
    }
    Ok(classes)
}
