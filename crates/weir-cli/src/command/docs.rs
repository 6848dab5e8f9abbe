//! `weir docs`: reference pages, generated from the `.weir` text of layers and stacks, and from the
//! registries of session protocols and logs.

use crate::subcommand::Subcommand;
use clap::Args as ClapArgs;
use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;
use weir::lang::{Library, reference};
use weir::packet::ValueType;
use weir::sessions::{Field, SessionProtocol, SessionRegistry};
use weir::{Compiler, Log};
use weir_questions::Group;
use weir_questions::messages::Failure;
use weir_questions::source::input;

/// Arguments of `docs`.
#[derive(ClapArgs)]
struct Args {
    /// Name of a layer, stack, session protocol or log, or a .weir file
    #[arg(value_name = "NAME|FILE.weir", required = true)]
    names: Vec<String>,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("docs tcp", "a layer"),
    ("docs tls", "a session protocol"),
    ("docs mine.weir", "everything in a file"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new(
        "docs",
        "The reference page of a protocol, a stack or a log, or of everything in a .weir file",
        |args: Args, _| run(&args),
    )
    .in_group(Group::Authors)
    .with_examples(EXAMPLES)
}

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let known = Compiler::default();
    let mut pages = vec![];
    for name in &args.names {
        if name.ends_with(".weir") {
            let compiler = input::compiler(std::slice::from_ref(name))?;
            pages.extend(pages_of(compiler.library()));
            continue;
        }
        let library = known.library();
        // A layer and a session protocol may share a name, as QUIC does: print both.
        let protocol = library.protocol(name).map(reference::protocol);
        let layer = protocol.or_else(|| library.stack(name).map(reference::stack));
        let found: Vec<String> = layer.into_iter().chain(pages_of_log(name)).collect();
        if found.is_empty() {
            return Err(Failure::new(unknown(library, name)));
        }
        pages.extend(found);
    }
    write!(std::io::stdout(), "{}", pages.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The error message for an unknown name.
fn unknown(library: &Library, name: &str) -> String {
    let layers = library.protocols().map(|protocol| protocol.name.as_str());
    let stacks = library.stacks().iter().map(|stack| stack.name.as_str());
    let registry = SessionRegistry::builtin();
    let parts = registry.part_logs().iter().map(|log| log.name);
    let sessions = registry.names(registry.all()).chain(parts);
    let listed = |names: &mut dyn Iterator<Item = &str>| {
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    };
    format!(
        "there is no protocol or stack `{name}`; there are the layers {}; the stacks {}; the sessions {}",
        listed(&mut { layers }),
        listed(&mut { stacks }),
        listed(&mut { sessions })
    )
}

/// The pages for this name: a session protocol, all protocols of a log, a log of parts of sessions, or the
/// log of connections.
fn pages_of_log(name: &str) -> Vec<String> {
    let is_called = |protocol: &&&SessionProtocol| protocol.name == name;
    let is_of_log = |protocol: &&&SessionProtocol| [protocol.log, protocol.service].contains(&name);
    let known = SessionRegistry::builtin().protocols();
    let mut protocols: Vec<_> = known.iter().filter(is_called).collect();
    if protocols.is_empty() {
        protocols.extend(known.iter().filter(is_of_log));
    }
    let pages = protocols.into_iter().map(|protocol| page_of_protocol(protocol));
    pages.chain(page_of_parts(name)).chain(page_of_connections(name)).collect()
}

fn page_of_protocol(protocol: &SessionProtocol) -> String {
    let name = protocol.name;
    let carriers = protocol.transports.join(" and ");
    let mut page = format!(
        "# {name}\n\n{}\n\n`weir {name}` prints {}.log, the fields below that have a column. It runs over \
         {carriers}; `conn.service` is `{}`.\n",
        protocol.doc, protocol.log, protocol.service
    );
    page.push_str("\n## Fields\n\n| field | also | column | type | meaning |\n|---|---|---|---|---|\n");
    for field in protocol.fields {
        let (also, kind) = (field.aliases.join(" "), type_name(field.value_type));
        page.push_str(&reference::row([field.name, &also, field.column, &kind, field.doc]));
    }
    words(&mut page, protocol.fields);
    page
}

/// The page of connection records.
fn page_of_connections(name: &str) -> Option<String> {
    ["conn", "flows"].contains(&name).then(|| {
        let mut page = "# conn\n\nConnections, when they are over.\n\n`weir flows` prints conn.log, the columns below; filters name \
                        them with `conn.` before.\n\n## Columns\n\n| field | column | type | meaning |\n|---|---|---|---|\n"
            .to_string();
        for column in weir::connection_columns(Compiler::default().stack()) {
            let field = format!("conn.{}", column.name);
            page.push_str(&reference::row([&field, &*column.name, &type_name(column.value_type), &*column.doc]));
        }
        page
    })
}

/// The page of a log of parts of sessions.
fn page_of_parts(name: &str) -> Option<String> {
    let registry = SessionRegistry::builtin();
    let parts = registry.part_logs().iter().find(|log| log.name == name)?;
    let of: Vec<&str> = parts.of.iter().map(|(protocol, _)| *protocol).collect();
    let mut page = format!(
        "# {name}\n\n{}\n\n`weir {name}` prints {name}.log, of sessions of {}: filters ask for these (`weir docs {}`).\n",
        parts.doc,
        of.join(" and "),
        of[0]
    );
    page.push_str("\n## Columns\n\n| column | type | meaning |\n|---|---|---|\n");
    for column in Log::of(registry, name)?.columns() {
        let kind = type_name(column.value_type);
        page.push_str(&reference::row([&column.name, &kind, &column.doc]));
    }
    Some(page)
}

/// Appends the lists of values of fields that have few.
fn words(page: &mut String, fields: &[Field]) {
    let lists = fields.iter().filter_map(|field| Some((field.name, field.words?)));
    for (place, (name, words)) in lists.enumerate() {
        let head = if place == 0 { "\n## Values\n" } else { "" };
        let others: Vec<String> = words.others.iter().map(|other| format!(", `{other}…`")).collect();
        let _ = writeln!(page, "{head}\n`{name}`: {}{}", (words.list)().join(", "), others.concat());
    }
}

fn type_name(value_type: ValueType) -> String {
    format!("{value_type:?}").to_lowercase()
}

/// The pages of the declarations in the last file added.
fn pages_of(library: &Library) -> Vec<String> {
    let protocols = library.latest_protocols().filter_map(|name| library.protocol(name));
    let stacks = library.latest_stacks().filter_map(|name| library.stack(name));
    protocols.map(reference::protocol).chain(stacks.map(reference::stack)).collect()
}
