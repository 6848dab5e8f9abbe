//! The command line: the subcommands, their common options, and usage errors.

use crate::failure::Failure;
use crate::subcommand::Subcommand;
use crate::words::names_file;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  weir flows -r capture.pcap                           every connection, as in Zeek's conn.log
  weir tls -r capture.pcap 'tls.sni contains \"example\"'
  weir http -r capture.pcap 'http.response.code >= 400'  one command per protocol; weir sessions: all
  weir zeek -r capture.pcap -d logs                    conn.log, ssl.log, http.log, files.log, x509.log …
  weir run questions.toml                              several questions in one pass
  weir packets -r capture.pcap --count 'tcp.port == 443 and ip.addr in 10.0.0.0/8'
  weir packets -r capture.pcap -w out.pcap 'tls.sni == \"www.example.com\"'
  zcat capture.pcap.gz | weir stats -r -
  weir streams -r capture.pcap -o streams/             each direction's bytes in order, one file each
  weir match -r capture.pcap -e 'User-Agent: [^\\r]*'   grep in streams
  weir explain 'tcp.port == 443 and tls'               how a filter is compiled
  weir fields tcp                                      the fields of TCP
  weir stats -r capture.pcap --stack quic              with another protocol stack: see `weir stacks`

A filter is one argument: quote it. `weir fields` lists the field names, `weir explain FILTER` shows how a
filter is evaluated. The default format is a table on a terminal and JSON lines otherwise; see --format.

Exit status: 0 success, even if nothing matches the filter; 1 if `match` finds or --count counts nothing (as
in grep), or if `fmt --check` finds differences; 2 an error, reported on standard error (rows of the readable
input are printed nevertheless), or rows that were lost because an output was blocked (--output-wait).
SIGINT, SIGTERM and SIGHUP end a run like the end of its input, with a message; the exit status is then 0
for a pipe, and 128 plus the signal's number for files, and if rows were lost. SIGTERM and SIGHUP end the
process within a second, even if an output is blocked. A second signal ends the run at once.";

/// Runs the subcommand of this process's command line; returns its exit status.
pub fn run(subcommands: &[Subcommand]) -> Result<ExitCode, Failure> {
    let command = clap::Command::new("weir")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Answer questions about network traffic, at the speed of the memory bus")
        .after_help(EXAMPLES)
        .max_term_width(100)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(subcommands.iter().map(Subcommand::command));
    let words = with_overview(std::env::args_os().collect());
    let matches = command.try_get_matches_from(words).unwrap_or_else(|wrong| refuse(&wrong));
    let (name, arguments) = matches.subcommand().unwrap_or_else(|| unreachable!("a subcommand is required"));
    let subcommand = subcommands.iter().find(|subcommand| subcommand.name == name);
    let Some(subcommand) = subcommand else {
        return Err(Failure::new(format!("there is no command `{name}`")));
    };
    subcommand.run(arguments, subcommands)
}

/// The words of the command line. If the first one is a capture file, the command is `overview`.
fn with_overview(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| names_file(word)) {
        words.insert(1, "overview".into());
    }
    words
}

/// Reports a usage error, and exits. Files without `-r` are a frequent mistake.
fn refuse(wrong: &clap::Error) -> ! {
    use clap::error::ErrorKind::{MissingRequiredArgument, UnknownArgument};
    let _ = wrong.print();
    let is_capture = |word: &OsString| word != "-" && names_file(word) && !Path::new(word).is_dir();
    let file = std::env::args_os().skip(2).find(is_capture);
    if let (MissingRequiredArgument | UnknownArgument, Some(file)) = (wrong.kind(), file) {
        say!("\n  tip: input files follow -r: -r {}", file.display());
    }
    std::process::exit(wrong.exit_code())
}
