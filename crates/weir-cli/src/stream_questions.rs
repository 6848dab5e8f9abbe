//! The options about cutoffs, priorities and chunks, as questions. An option can name a class of streams by a filter.
//! Each class becomes a question of its own; together, these questions cover the streams of the original question.

use crate::failure::Failure;
use crate::quantity::{bytes, classified};
use crate::spec::QuestionSpec;
use crate::subcommand::Context;
use weir::stream::{ChunkParams, PRIORITIES_MAX, StreamParams};

/// The classes of streams of a question: filters, each with the parameters of its streams. A connection belongs to the
/// first class whose filter it matches.
pub fn classes(spec: &QuestionSpec, context: &Context<'_>) -> Result<Vec<(String, StreamParams)>, Failure> {
    context.compiler.check_filter(&spec.filter, context.bpf)?;
    let cutoffs = read_classes(context, "--cutoff", &spec.cutoff, &read_cutoff, [u64::MAX; 2])?;
    let priorities = read_classes(context, "--priority", &spec.priority, &read_priority, 0)?;
    let chunk = read_chunk(spec)?;
    let mut questions = vec![];
    let is_class = cutoffs.len() + priorities.len() > 2;
    for (cut, cutoff) in &cutoffs {
        for (level, priority) in &priorities {
            let own = Some(spec.filter.as_str()).filter(|text| !text.trim().is_empty());
            let parts: Vec<&str> = [own, cut.as_deref(), level.as_deref()].into_iter().flatten().collect();
            // A single filter stays as typed, so that diagnostics point into it.
            let text = match &parts[..] {
                [] => String::new(),
                [one] => (*one).to_owned(),
                all => all.iter().map(|part| format!("({part})")).collect::<Vec<_>>().join(" and "),
            };
            let (cutoff, priority) = (*cutoff, *priority);
            let params = StreamParams { cutoff, chunk, priority, is_class, ..StreamParams::default() };
            questions.push((text, params));
        }
    }
    Ok(questions)
}

type Class<T> = (Option<String>, T);

/// The values of an option in the order given; the value for all other streams comes last.
fn read_classes<T>(
    context: &Context<'_>,
    option: &str,
    texts: &[String],
    read: &dyn Fn(&str) -> Result<T, Failure>,
    otherwise: T,
) -> Result<Vec<Class<T>>, Failure> {
    let (mut classes, mut others) = (vec![], None);
    for text in texts {
        let (filter, value) = classified(text);
        let value = read(value)?;
        match filter {
            Some(filter) => {
                // A layer's name is already a filter.
                let mut layers = context.compiler.stack().layers.iter();
                let is_layer = layers.any(|layer| layer.protocol.filter_name == filter);
                let ports = if is_layer { None } else { service(filter, context) };
                let filter = ports.unwrap_or_else(|| filter.to_owned());
                context.compiler.check_filter(&filter, context.bpf)?;
                classes.push((Some(filter), value));
            }
            None if others.is_some() => {
                return Err(Failure::new(format!(
                    "{option} {text}: a value for all streams is already given"
                )));
            }
            None => others = Some(value),
        }
    }
    classes.push((None, others.unwrap_or(otherwise)));
    Ok(classes)
}

/// The filter that stands for the name of a session protocol: its server ports. A stream's class must be known at its first packet,
/// when its session protocol is not known yet. `None`: no protocol with ports has the name.
fn service(name: &str, context: &Context<'_>) -> Option<String> {
    let sessions = context.compiler.sessions();
    let ports = sessions.protocol(sessions.number_of(name)?).ports;
    if ports.is_empty() {
        return None;
    }
    if context.bpf {
        return Some(ports.iter().map(|port| format!("port {port}")).collect::<Vec<_>>().join(" or "));
    }
    let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    Some(format!("tcp.port in {{{ports}}} or udp.port in {{{ports}}}"))
}

/// `10k` for both directions, or `1k/64k` for originator and responder.
fn read_cutoff(text: &str) -> Result<[u64; 2], Failure> {
    let (originator, responder) = text.split_once('/').unwrap_or((text, text));
    Ok([bytes("--cutoff", originator.trim())?, bytes("--cutoff", responder.trim())?])
}

fn read_priority(text: &str) -> Result<u8, Failure> {
    let priority = text.parse().ok().filter(|&priority: &u8| priority < PRIORITIES_MAX);
    priority.ok_or_else(|| {
        let (shown, most) = (if text.is_empty() { "''" } else { text }, PRIORITIES_MAX - 1);
        Failure::new(format!("--priority {shown}: give FILTER:N with N from 0 to {most}, for example dns:9"))
    })
}

fn read_chunk(bounds: &QuestionSpec) -> Result<Option<ChunkParams>, Failure> {
    let Some(size) = &bounds.chunk else {
        let needless = [("overlap", bounds.overlap.is_some()), ("flush", bounds.flush.is_some())];
        return match needless.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::new(format!("`{option}` needs `chunk`, the size of chunks"))),
            None => Ok(None),
        };
    };
    let read = |option: &str, text: &str| {
        let number = bytes(option, text)?;
        u32::try_from(number).map_err(|_| Failure::new(format!("{option} {text}: give less than 4G")))
    };
    let size = read("--chunk", size)?;
    let overlap = bounds.overlap.as_deref().map_or(Ok(0), |text| read("--overlap", text))?;
    if size == 0 || overlap >= size {
        return Err(Failure::new(format!(
            "--chunk {size} --overlap {overlap}: a chunk must be longer than its overlap"
        )));
    }
    let flush_ns = match bounds.flush {
        // A result of 0 ns would mean no flush.
        Some(seconds) if seconds > 0.0 => ((seconds * 1e9) as i64).max(1),
        Some(seconds) => {
            return Err(Failure::new(format!(
                "--flush {seconds}: give a time of more than 0, for example 10, 500ms or 5m"
            )));
        }
        None => 0,
    };
    Ok(Some(ChunkParams { bytes: size, overlap, flush_ns }))
}
