//! `weir record`: keeps all packets of the last minutes in memory, and those before on the disk.

use crate::api::PAGE_ADDRESS;
use crate::ask::{self, Asked};
use crate::failure::Failure;
use crate::flags::Flags;
use crate::input_options::Input;
use crate::kind::Group;
use crate::quantity::{bytes, classified, seconds};
use crate::recording::{ApiParams, RecordingParams};
use crate::spec::Stdout;
use crate::subcommand::Subcommand;
use crate::thresholds::Around;
use crate::words;
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use weir::PacketClasses;
use weir::io::ring::recorders::{self, DEFAULT};
use weir::io::ring::{RING_BYTES_MIN, Retention, SPOOL_BYTES_MIN, SpoolParams, check_class};

/// Arguments of `record`.
#[derive(ClapArgs, Clone)]
struct Args {
    /// Memory for packets. The oldest packets make room for new ones
    #[arg(long, value_name = "BYTES", default_value = "1G")]
    ring: String,
    /// The name of the recorder: `-r ring:NAME` reads it
    #[arg(long, value_name = "NAME", default_value = DEFAULT, value_parser = name)]
    name: String,
    /// Write all packets to files in this directory, too: what has left the memory stays readable
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// The most bytes of these files; the oldest are removed
    #[arg(long, value_name = "BYTES", default_value = "100G", requires = "spool")]
    spool_size: String,
    /// Remove files that were written longer ago
    #[arg(long, value_name = "TIME", value_parser = age, requires = "spool")]
    spool_age: Option<Duration>,
    /// Keep packets that match this filter in files of their own, in the directory NAME of the spool, with
    /// this size and age. May be given several times; the first filter that a packet matches counts
    #[arg(long, value_name = "NAME=FILTER:BYTES[/TIME]", requires = "spool")]
    keep: Vec<String>,
    /// Dump connections that match this filter, from their first packet on, to a file each. May be given
    /// several times
    #[arg(long, value_name = "FILTER", requires = "dumps")]
    trigger: Vec<String>,
    /// Dump the packets of each group of this aggregate while its rows come, for example
    /// `count() by ip.dst every 1s having count > 1000 where tcp.flags.syn == 1`. May be given several times
    #[arg(long, value_name = "AGGREGATE [where FILTER]", requires = "dumps")]
    threshold: Vec<String>,
    /// Dump the connection of each alert of these rules, from its first packet on: a file, or a directory
    /// whose files end in `.rules`. May be given several times
    #[arg(long, value_name = "PATH", requires = "dumps")]
    rules: Vec<PathBuf>,
    /// The time before and after the windows of a threshold that is dumped, too; after the last alert of a
    /// connection
    #[arg(long, value_name = "TIME[/TIME]", value_parser = around, default_value = "10s/10s", requires = "dumps")]
    around: Around,
    /// The directory of dumps
    #[arg(long, value_name = "DIR")]
    dumps: Option<PathBuf>,
    /// The most bytes and files of dumps in the directory, and the longest time of one: 10G, 10G/5000,
    /// 10G/5000/24h. Default: 10 000 files of an hour each, and 100G or half of the free space, whichever is
    /// less
    #[arg(long, value_name = "BYTES[/FILES[/TIME]]", requires = "dumps")]
    dumps_max: Option<String>,
    /// Serve the API of the recorder over HTTP, at http://ADDR/api/v1/: 9465 (or 127.0.0.1:9465, [::1]:9465).
    /// A message has the address with a new token. Other hosts can ask only with --api-token-file.
    /// unix:PATH: at a socket file instead, for those to whom its rights (0600) are given
    #[arg(long, value_name = "[HOST:]PORT|unix:PATH")]
    api: Option<String>,
    /// The file with the token that clients of the API need: at least 16 letters in its first line. Only its
    /// owner may be able to read it
    #[arg(long, value_name = "FILE")]
    api_token_file: Option<PathBuf>,
    /// Serve a page for browsers, too, at the address of --api. Default: 127.0.0.1:9465
    #[arg(long)]
    page: bool,
    #[command(flatten)]
    input: Flags<Input>,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("record -i eth0 --ring 8G", "the last packets, in memory; Ctrl-C ends"),
    ("record -i eth0 --ring 8G --spool /data --spool-size 2T", "and those before, on the disk"),
    (
        "record -i eth0 --spool /data --spool-size 1T --keep dns=dns:100G/90d",
        "files of DNS are kept for longer",
    ),
    (
        "record -i eth0 --trigger 'tls.sni contains \"example\"' --dumps /data/dumps",
        "dumps connections, from their first packet on",
    ),
    ("record -i eth0 --ring 8G --page", "with a page for browsers"),
    ("flows -r ring: --from -5m 'tcp.port == 443'", "meanwhile: connections of the last five minutes"),
    ("packets -r ring: --from 14:02 --to 14:05 -w out.pcapng 'ip.addr == 10.0.0.7'", "packets of a host"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new(
        "record",
        "Keep all packets of a link, in memory and on the disk, for questions about the past",
        run,
    )
    .in_group(Group::Everyday)
    .with_examples(EXAMPLES)
}

fn age(text: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(seconds(text)?).map_err(|_| "give a time, for example 24h".to_string())
}

/// The longest time around the windows of a threshold.
const AROUND_MAX: Duration = Duration::from_hours(30 * 24);

/// The time before and after, or one for both.
fn around(text: &str) -> Result<Around, String> {
    let (before, after) = text.split_once('/').unwrap_or((text, text));
    let around = Around { before: age(before)?, after: age(after)? };
    match around.before.max(around.after) > AROUND_MAX {
        true => Err("give at most 30d".to_string()),
        false => Ok(around),
    }
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

fn name(text: &str) -> Result<String, String> {
    recorders::check_name(text).map(|()| text.to_string())
}

fn run(args: Args, _: &[Subcommand]) -> Result<ExitCode, Failure> {
    let Args { ring, name, spool, spool_size, spool_age, keep, input, .. } = args;
    let Flags(mut input) = input;
    let Args { trigger: triggers, threshold: thresholds, rules, around, dumps, dumps_max, api, .. } = args;
    let Args { api_token_file, page, .. } = args;
    input.read = words::expand(&input.read)?;
    if input.interface.is_empty() && input.read.is_empty() {
        return Err(Failure::new("no input: name an interface, as in `weir record -i eth0`"));
    }
    let ring_bytes = usize::try_from(bytes("--ring", &ring)?).unwrap_or(usize::MAX);
    if ring_bytes < RING_BYTES_MIN {
        return Err(Failure::new(format!("--ring: give at least {}M", RING_BYTES_MIN >> 20)));
    }
    if input.bpf && !thresholds.is_empty() {
        return Err(Failure::new("--threshold: keys and filters are in the syntax of Weir: leave --bpf out"));
    }
    let rest = Retention { bytes_max: spool_bytes("--spool-size", &spool_size)?, age_max: spool_age };
    let (classes, filters) = classes(&keep)?.into_iter().unzip();
    let spool = spool.map(|directory| SpoolParams { directory, rest, classes });
    let address = api.or_else(|| page.then(|| PAGE_ADDRESS.to_string()));
    if address.is_none() && api_token_file.is_some() {
        return Err(Failure::new("--api-token-file is for --api or --page"));
    }
    let api = address.map(|address| ApiParams { address, token_file: api_token_file, has_page: page });
    input.recording = Some(RecordingParams {
        name,
        ring_bytes,
        spool,
        classes: filters,
        triggers,
        thresholds,
        around,
        rules,
        dumps,
        dumps_max,
        api,
    });
    // `answer` adds the questions of triggers, thresholds and rules.
    let stdout = Stdout::Own { is_terminal: false };
    Ok(ask::answer(Asked { stdout, ..Asked::of(&input, &[]) })?.ran.status)
}
