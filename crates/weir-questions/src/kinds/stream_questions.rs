//! The options about cutoffs, priorities and chunks, as questions. An option can name a class of streams by a
//! filter. Each class becomes a question of its own; together, these questions cover the streams of the
//! original question.

use crate::kind::Context;
use crate::messages::failure::Failure;
use crate::quantity::{bytes, classified};
use crate::server_ports::service;
use crate::spec::QuestionSpec;
use weir::stream::{ChunkParams, PRIORITIES_MAX, StreamParams};

/// The classes of streams of a question: filters, each with the parameters of its streams. A connection
/// belongs to the first class whose filter it matches.
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
                let ports = service(filter, context.compiler, context.bpf);
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
