//! The command line: the subcommands, their common options, and usage errors.

use crate::subcommand::Subcommand;
use crate::terminal;
use crate::version;
use std::ffi::OsString;
use std::process::ExitCode;
use weir_questions::Group;
use weir_questions::messages::Failure;
use weir_questions::source::file_names::names_file;

const EXAMPLES: &str = "\
Examples:
  weir capture.pcap                                      what the capture contains
  weir flows capture.pcap                                every connection, as in Zeek's conn.log
  weir tls capture.pcap 'tls.sni contains \"example\"'    one command per protocol; weir sessions: all
  weir http capture.pcap 'http.response.code >= 400' --columns ts,client,host,uri,status_code
  weir flows capture.pcap --sort -resp_bytes --limit 10  the ten largest downloads
  weir packets capture.pcap -w out.pcapng 'tcp.port == 443 and ip.addr in 10.0.0.0/8'
  weir match capture.pcap -e 'User-Agent: [^\\r]*'       grep in streams
  weir tls capture.pcap -o tls.parquet                   the name of the output selects its format
  zcat capture.pcap.gz | weir stats -

A filter is one argument: quote it. `weir fields` lists the field names, `weir explain FILTER`
shows how a filter is evaluated. `weir COMMAND --help` has the options and more examples.

Exit status: 0 success, even if nothing matches the filter; 1 if `match` finds or --count counts
nothing (as in grep), or if `fmt --check` finds differences; 2 an error, reported on standard error
(rows of the readable input are printed nevertheless), or rows that were lost because an output was
blocked (--output-wait). SIGINT, SIGTERM and SIGHUP end a run like the end of its input, with a
message; the exit status is then 0 for a pipe, and 128 plus the signal's number for files, and if
rows were lost. SIGTERM and SIGHUP end the process within a second, even if an output is blocked. A
second signal ends the run at once.";

const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}\
                        Options:\n{options}{after-help}";

/// The widest line of the help.
const WIDTH_MAX: usize = 100;

/// The commands in their groups, one line each.
fn list(subcommands: &[&Subcommand]) -> String {
    let width = subcommands.iter().map(|command| command.name.len()).max().unwrap_or(0);
    let room = WIDTH_MAX - width - 4;
    let mut text = String::new();
    for (group, title) in Group::ALL {
        text += &format!("{title}:\n");
        for command in subcommands.iter().filter(|command| command.group == *group) {
            let about = match command.about.char_indices().nth(room) {
                // The last word that fits.
                Some((at, _)) => {
                    let head = &command.about[..at];
                    let end = head.rfind(' ').unwrap_or(at);
                    format!("{}…", command.about[..end].trim_end_matches([',', ':', ';', '(']))
                }
                None => command.about.to_string(),
            };
            text += &format!("  {:width$}  {about}\n", command.name);
        }
        text.push('\n');
    }
    text.pop();
    text
}

/// The command line, without commands that this build lacks: for manual pages and completions.
pub fn shown(subcommands: &[Subcommand]) -> clap::Command {
    with(subcommands).subcommands(listed(subcommands).map(Subcommand::command))
}

/// The command line for these words. Of all commands only the one that is called has its arguments: the
/// arguments of 60 commands are a tenth of the start of a run. The help leaves out commands that this build
/// lacks; each says what is missing.
fn for_words(words: &[OsString], subcommands: &[Subcommand]) -> clap::Command {
    let called = words.iter().skip(1).find(|word| !is_option(word));
    let is_called =
        |command: &Subcommand| called.is_some_and(|word| *word == *command.name || word == "help");
    let build = |command: &Subcommand| if is_called(command) { command.command() } else { command.unbuilt() };
    with(subcommands).subcommands(subcommands.iter().map(build))
}

/// The commands that this build has.
fn listed(subcommands: &[Subcommand]) -> impl Iterator<Item = &Subcommand> {
    subcommands.iter().filter(|command| !command.is_hidden)
}

/// Whether a word of the command line is an option. `-` is the standard input.
fn is_option(word: &OsString) -> bool {
    word.to_str().is_some_and(|word| word.starts_with('-') && word != "-")
}

/// The command line without its commands.
fn with(subcommands: &[Subcommand]) -> clap::Command {
    let switch = |name: &'static str, short, help: &'static str| {
        let arg = clap::Arg::new(name).short(short).long(name).help(help);
        arg.global(true).action(clap::ArgAction::SetTrue).help_heading("Messages")
    };
    let version = clap::Arg::new("version").short('V').long("version").action(clap::ArgAction::Version);
    let version = version.help("Print version; with --verbose also the features of this build");
    clap::Command::new("weir")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Answer questions about network traffic, at the speed of the memory bus")
        .override_usage("weir FILE\n       weir COMMAND FILE… [FILTER] [OPTIONS]")
        .help_template(TEMPLATE)
        .before_help(list(&listed(subcommands).collect::<Vec<_>>()))
        .after_help(EXAMPLES)
        .max_term_width(WIDTH_MAX)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_version_flag(true)
        .arg(version)
        .arg(switch("quiet", 'q', "Print errors only: no progress, no warnings, no notes"))
        .arg(switch("verbose", 'v', "Print counters, memory and times at the end, as --stats does"))
}

/// Runs the subcommand of this process's command line; returns its exit status.
pub fn run(subcommands: &[Subcommand]) -> Result<ExitCode, Failure> {
    let words: Vec<OsString> = std::env::args_os().collect();
    if asks_for_build(&words) {
        terminal::print(version::lines().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = with_overview(words, subcommands);
    let matches = for_words(&words, subcommands).get_matches_from(words);
    terminal::set_verbosity(matches.get_flag("quiet"), matches.get_flag("verbose"));
    let (name, arguments) = matches.subcommand().unwrap_or_else(|| unreachable!("a subcommand is required"));
    let subcommand = subcommands.iter().find(|subcommand| subcommand.name == name);
    let Some(subcommand) = subcommand else {
        return Err(Failure::new(format!("there is no command `{name}`")));
    };
    subcommand.run(arguments, subcommands)
}

/// Whether the words are `--version --verbose`. clap prints the version before it has seen the second one.
fn asks_for_build(words: &[OsString]) -> bool {
    let (mut version, mut verbose) = (false, false);
    for word in words.iter().skip(1) {
        match word.to_str() {
            Some("--version" | "-V") => version = true,
            Some("--verbose" | "-v") => verbose = true,
            Some("-vV" | "-Vv") => (version, verbose) = (true, true),
            _ => return false,
        }
    }
    version && verbose
}

/// The words of the command line. If the first one that is no option is a capture file and no command, the
/// command is `overview`.
fn with_overview(mut words: Vec<OsString>, commands: &[Subcommand]) -> Vec<OsString> {
    let first = words.iter().skip(1).position(|word| !is_option(word)).map(|place| place + 1);
    let is_command =
        |word: &OsString| commands.iter().any(|command| *word == *command.name) || word == "help";
    if let Some(first) = first.filter(|&first| !is_command(&words[first]) && names_file(&words[first])) {
        words.insert(first, "overview".into());
    }
    words
}
