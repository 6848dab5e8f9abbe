//! Turns arguments into a compiler, options and a source.

use super::file_names;
use crate::input_options::Input;
use crate::messages::failure::Failure;
use crate::messages::{Level, Message};
use crate::quantity::bytes;
use crate::source::memory;
use crate::source::policies::read_policies;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use weir::io::tcp::Endpoint;
use weir::lang::ContextChanges;
use weir::stream::OverloadParams;
use weir::{Compiler, Executor, Limits, Options, Processors};

/// Processors of a range at most.
const PROCESSORS_MAX: usize = 4096;

/// A compiler with the named stacks and files; it uses the last stack.
///
/// # Errors
/// If a stack is unknown, or a file is unreadable or has mistakes. Also if an earlier stack or file has no
/// effect: the last stack neither extends it nor uses one of its protocols.
pub fn compiler(stacks: &[String]) -> Result<Compiler, Failure> {
    let mut compiler = Compiler::default();
    let mut brought = vec![];
    for stack in stacks {
        if !stack.ends_with(".weir") {
            compiler.use_stack(stack).map_err(Failure::new)?;
            brought.push((vec![stack.clone()], vec![]));
            continue;
        }
        let text = read_text(Path::new(stack))?;
        let warnings = compiler.add_file(stack, &text)?;
        if !warnings.list.is_empty() {
            Message::rendered(|is_colored| warnings.render(is_colored), Level::Warning).tell();
        }
        let library = compiler.library();
        let names = |names: &mut dyn Iterator<Item = &str>| names.map(str::to_string).collect::<Vec<_>>();
        brought.push((names(&mut library.latest_stacks()), names(&mut library.latest_protocols())));
    }
    let used = compiler.library().stack_and_bases(&compiler.stack().name);
    let layers = &compiler.stack().layers;
    let is_used = |(stacks, protocols): &(Vec<String>, Vec<String>)| {
        let has_layer = |name: &String| layers.iter().any(|layer| layer.protocol.declared == *name);
        stacks.is_empty()
            || stacks.iter().any(|name| used.contains(&name.as_str()))
            || protocols.iter().any(has_layer)
    };
    let lost = stacks.iter().zip(&brought).find(|(_, brought)| !is_used(brought));
    let Some((lost, (names, _))) = lost else { return Ok(compiler) };
    let (last, name) = (&compiler.stack().name, names.last().map_or("", String::as_str));
    Err(Failure::new(format!(
        "--stack {lost} has no effect: only the last stack is used, `{last}`, and it includes nothing of \
         `{name}`. To use both, extend one: `stack both extends {name} {{ … }}`"
    )))
}

/// Standard input by path: a regular file if it is redirected from one.
pub const STDIN: &str = "/dev/stdin";

/// Whether the input may be live, so that somebody may wait for each row.
pub fn is_live(input: &Input) -> bool {
    let path = |name| if name == "-" { Path::new(STDIN) } else { Path::new(name) };
    // A missing file never becomes live.
    // A recorder has packets up to now, unless it is followed.
    let is_file = |path: &Path| {
        let is_whole = || std::fs::metadata(path).map_or(true, |about| about.is_file() || about.is_dir());
        Endpoint::is_recorder(path) || !Endpoint::is_named(path) && is_whole()
    };
    input.follow || !input.interface.is_empty() || input.read.iter().any(|name| !is_file(path(name)))
}

/// Socket addresses, for a message.
pub fn addresses(addresses: &[SocketAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    texts.join(" and ")
}

/// Whether the packets of a recorder are read.
fn reads_recorder(input: &Input) -> bool {
    input.read.iter().any(|name| Endpoint::is_recorder(Path::new(name)))
}

thread_local! {
    /// What this thread reads, it has read before.
    static READS_AGAIN: Cell<bool> = const { Cell::new(false) };
}

/// From now on, this thread reads files a second time: those of a reload. A pipe gave its text the first
/// time, and would never end.
pub fn read_again() {
    READS_AGAIN.set(true);
}

/// The text of a file; of a pipe only at the first time.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    let text = match READS_AGAIN.get() && !std::fs::metadata(path).is_ok_and(|about| about.is_file()) {
        true => Err(io::Error::other("it is no regular file, and cannot be read again")),
        false => std::fs::read(path).and_then(weir::lang::text_of),
    };
    text.map_err(|error| Failure::reading(path.display(), &error))
}

/// Rejects a filter among the files (`-r` takes all words), and standard input named twice.
pub fn check_files(input: &Input, compiler: &Compiler) -> Result<(), Failure> {
    if let (Some(file), Some(interface)) = (input.read.first(), input.interface.first()) {
        let file = file.display();
        return Err(Failure::new(format!(
            "`{file}` is a file, and -i {interface} a link: read one of the two"
        )));
    }
    if let Some(interface) = input.interface.first().filter(|_| input.follow) {
        return Err(Failure::new(format!("--follow is for files; -i {interface} ends with a signal anyway")));
    }
    let of_links = [
        ("--buffer", input.buffer.is_some()),
        ("--no-promiscuous", input.no_promiscuous),
        ("--mirror", input.mirror),
        ("--hardware-time", input.hardware_time),
        ("--dpdk-eal", input.dpdk_eal.is_some()),
        ("--user", input.user.is_some()),
    ];
    if input.hardware_time && input.method == "af_xdp" {
        return Err(Failure::new("--hardware-time is for --method af_packet".to_string()));
    }
    if (input.from.is_some() || input.to.is_some()) && !reads_recorder(input) {
        return Err(Failure::new(
            "--from and --to are for recorders (-r ring:NAME); for other captures, filter by frame.time: 'frame.time >= \"2026-11-26 \
             14:02\"'",
        ));
    }
    let is_link = !input.interface.is_empty();
    let wrong = of_links.into_iter().filter(|(_, is_given)| *is_given && !is_link);
    let each =
        wrong.map(|(option, _)| Failure::new(format!("{option} is for captures on an interface (-i)")));
    Failure::all(each.collect())?;
    if input.read.iter().filter(|word| *word == "-").count() > 1 {
        return Err(Failure::new("-r - -r -: standard input can be read once".to_string()));
    }
    let mistakes = input.read.iter().filter_map(|word| {
        let mistake = match Endpoint::of(Path::new(word))? {
            Ok(Endpoint::Datagrams(name)) => name.local().err()?,
            endpoint => endpoint.err()?,
        };
        Some(Failure::new(format!("{}: {mistake}", word.display())))
    });
    Failure::all(mistakes.collect())?;
    let is_filter = |word: &str| {
        let has_signs = word.contains([' ', '=', '<', '>', '(', '"']);
        has_signs || compiler.check_filter(word, input.bpf).is_ok()
    };
    let missing: Vec<_> = input.read.iter().filter(|word| !file_names::names_input(word)).collect();
    let filters = missing.iter().filter_map(|word| word.to_str().filter(|word| is_filter(word)));
    let wrong = filters.map(|word| {
        Failure::new(format!(
            "no such file: `{word}`; if that is the filter: it stands before -r, or behind all files: \
             -r FILE '{word}'"
        ))
    });
    Failure::all(wrong.collect())?;
    // A missing file beside existing ones is reported later. If all are missing, fail now, before outputs are
    // truncated.
    if missing.len() < input.read.len() || input.read.is_empty() {
        return Ok(());
    }
    let each = missing.iter().map(|word| Failure::new(format!("{}: no such file", word.display())));
    Failure::all(each.collect())
}

/// Compiler options.
///
/// # Errors
/// If a pass to be disabled does not exist.
pub fn options(input: &Input) -> Result<Options, Failure> {
    let passes = || weir::explain::pass_names().collect::<Vec<_>>();
    if let Some(unknown) = input.without.iter().find(|w| *w != "all" && !passes().contains(&w.as_str())) {
        return Err(Failure::new(format!(
            "there is no pass `{unknown}`; there are: {}, all",
            passes().join(", ")
        )));
    }
    let limits = Limits {
        // Traffic may be hostile: senders must not be able to predict hash collisions.
        seed: RandomState::new().hash_one(0u8),
        flows_max: input.flows_max,
        strict: input.mode == "strict",
        idle_timeout_ms: input
            .idle_timeout
            .map(|s| (s * 1000.0).ceil().clamp(0.0, f64::from(u32::MAX)) as u32),
        ..Limits::default()
    };
    let processors = input.cpus.as_deref().map(processors).transpose()?.unwrap_or_default();
    Ok(Options {
        sample: input.sample,
        narrow: !input.interface.is_empty() || reads_recorder(input),
        processors,
        engine: match input.engine.as_str() {
            "native" => Executor::Native,
            "interpreter" => Executor::Interpreter,
            _ => Executor::Auto,
        },
        without_passes: input.without.clone(),
        bpf: input.bpf,
        decode_as: input.decode_as.clone(),
        context: ContextChanges { ignored: input.ignore_context.clone(), added: input.add_context.clone() },
        limits,
        policies: read_policies(&input.policy)?,
        overload: read_memory(input)?,
        ..Options::default()
    })
}

/// The processors of a list such as `0,2-3`.
fn processors(list: &str) -> Result<Processors, Failure> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        (first <= last && last - first < PROCESSORS_MAX).then_some(first..=last)
    };
    let ranges: Option<Vec<_>> = list.split(',').map(range).collect();
    let wrong = || Failure::new(format!("--cpus: `{list}` is no list of processors, such as 0,2-3"));
    let numbers = ranges.ok_or_else(wrong)?.into_iter().flatten().collect();
    Processors::new(numbers).map_err(|wrong| Failure::new(format!("--cpus: {wrong}")))
}

/// The bounds on the memory of a worker.
fn read_memory(input: &Input) -> Result<OverloadParams, Failure> {
    let memory_max = memory::of_worker(input)?;
    let cutoff = input.overload_cutoff.as_deref();
    let cutoff = cutoff.map_or(Ok(u64::MAX), |text| bytes("--overload-cutoff", text))?;
    Ok(OverloadParams { memory_max, cutoff, ..OverloadParams::default() })
}
