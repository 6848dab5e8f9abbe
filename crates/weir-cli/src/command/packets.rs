//! `weir packets -w`: packets for a capture file, a connection, or instances of an application.

use crate::ask;
use crate::asking::Asking;
use crate::flags::file_named;
use crate::subcommand::Subcommand;
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_questions::QuestionKind;
use weir_questions::QuestionSpec;
use weir_questions::messages::Failure;

/// Arguments that only this command has.
#[derive(ClapArgs)]
struct Own {
    /// Write the matching frames to this capture file (.pcap or .pcapng); or, as pcapng or in the --format,
    /// to a TCP connection: `tcp://HOST:PORT` connects, `tcp-listen:PORT` sends them to every client of this
    /// host that connects (127.0.0.1 and ::1; `tcp-listen:ADDRESS:PORT` also accepts other hosts, without a
    /// password: 0.0.0.0 is all of IPv4, [::] all). Or send them over UDP: `udp://HOST:PORT[,HOST:PORT…]` (or
    /// HOST:9000-9003) are instances of an application, which read them with `-r udp://:PORT`
    #[arg(short = 'w', long = "write", value_name = "OUT.pcap|OUT.pcapng|tcp…|udp…", conflicts_with_all = ["count", "output"], help_heading = "Output")]
    write: Option<PathBuf>,
}

/// The subcommand.
pub fn command(kind: QuestionKind) -> Subcommand {
    Subcommand::asking_with(kind, &[], run).with_arguments(|command| {
        let texts = ["write", "count"];
        command
            .mut_arg("balance", |arg| arg.requires("write"))
            .mut_arg("detail", |arg| arg.conflicts_with_all(texts))
            .mut_arg("hex", |arg| arg.conflicts_with_all(texts))
    })
}

fn run(asking: Asking, own: Own) -> Result<ExitCode, Failure> {
    let Some(path) = own.write else { return asking.answer() };
    let mut asking = asking.settle()?;
    let output = file_named(Some(path.clone()));
    asking.spec = QuestionSpec { output, is_written: true, ..asking.spec };
    let answered = ask::answer(asking.asked())?;
    if !answered.is_unread {
        note!("{} packets written to {}", answered.answers, path.display());
    }
    Ok(answered.status)
}
