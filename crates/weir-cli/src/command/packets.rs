//! `weir packets`: a line per packet, their number, or a capture file of them.

use super::ask;
use crate::args::Packets;
use crate::failure::Failure;
use crate::output;
use std::process::ExitCode;
use weir::io::CaptureWriter;
use weir::lang::model::Stack;
use weir::packet::{Column, PacketMeta, Value, ValueType};
use weir::{Item, Need, Path, Shape, Want};

/// Columns of a packet's row.
pub const COLUMNS: &[Column] = &[
    Column::new("number", ValueType::Unsigned, "number of the packet in the run"),
    Column::new("ts", ValueType::Time, "time of capture"),
    Column::new("length", ValueType::Unsigned, "bytes on the wire"),
    Column::new("layers", ValueType::Text, "layers, outermost first"),
    Column::new("info", ValueType::Text, "text of the layers"),
];

pub fn run(args: &Packets) -> Result<ExitCode, Failure> {
    let counts = args.ask.output.count;
    let lines = !counts && args.write.is_none();
    let need = Need { packets: true, lines, ..Need::default() };
    let question = ask::compile(&args.ask, ask::one(&args.ask, need, Want::Packets))?;
    if counts {
        return ask::count(&question, &args.ask.output);
    }
    if let Some(path) = &args.write {
        output::refuse_input(path, &args.ask.input)?;
        // Its error names the file.
        let mut writer = CaptureWriter::create(path).map_err(Failure::new)?;
        if writer.takes_options() {
            writer = writer.with_findings(question.findings.follow());
        }
        let shape = Shape { frames: true, options: writer.takes_options(), ..Shape::default() };
        let ran = question.run(shape, &mut |item| {
            let written = match item {
                Item::Packet { meta, frame, options, .. } => {
                    writer.write_with_options(&meta, &frame, &options)
                }
                // Who reads what is written is not to wait for packets that may come.
                Item::Pause => writer.flush(),
                _ => Ok(()),
            };
            written.map_err(|e| Failure::writing(path.display(), &e))
        })?;
        writer.finish().map_err(|e| Failure::writing(path.display(), &e))?;
        say!("{} packets written to {}", ran.outcome.matched[0], path.display());
        return Ok(ran.status);
    }
    let mut sink = output::sink(&args.ask.output, "")?;
    sink.begin(COLUMNS)?;
    let stack = question.compiled.stack().clone();
    let shape = Shape { lines: true, ..Shape::default() };
    let ran = question.run(shape, &mut |item| {
        match item {
            Item::Packet { meta, path, line, .. } => sink.row(&values(&stack, &meta, path, &line))?,
            Item::Pause => sink.flush()?,
            _ => {}
        }
        Ok(())
    })?;
    sink.end()?;
    Ok(ran.status)
}

/// The values of [`COLUMNS`].
pub fn values<'a>(stack: &Stack, meta: &PacketMeta, path: Path, line: &'a str) -> [Value<'a>; 5] {
    [
        Value::Unsigned(meta.number),
        Value::Time(meta.time),
        Value::Unsigned(u64::from(meta.wire_bytes)),
        Value::Text(weir::Stats::path_name(stack, path).into()),
        Value::Text(line.into()),
    ]
}
