//! The API of a recorder over HTTP (`weir record --api`): what the server of `weir-web` asks for, from the
//! ring, the spool and the run.
//!
//! - `past.rs`: reads packets of the past; `results.rs` keeps rows for further pages; `connection.rs`: one
//!   connection; `known.rs` remembers connections
//! - `timeline.rs`: packets, bytes and losses over time; `status.rs`: the state, once a second as an event
//! - `standing.rs`: triggers and questions of the run that goes on; `filter_dump.rs`: dumps of a filter
//! - `filter_help.rs`: mistakes and completions of filters; `refusals.rs`: errors as the API has them

mod connection;
mod filter_dump;
mod filter_help;
mod known;
mod past;
mod refusals;
mod results;
mod standing;
mod status;
mod timeline;

use crate::dump_list::{self, DumpEvent};
use crate::dumps::DumpAsker;
use crate::options::RecorderOptions;
use crate::recording::Recording;
use filter_dump::FilterDumps;
use past::{PCAPNG, Past};
use results::Results;
use serde_json::json;
use standing::Standing;
use status::{State, Ticker};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir::Watch;
use weir_guard::{secrets, sockets};
use weir_questions::messages::Failure;
use weir_questions::run::Run;
use weir_web::{Admission, Client, Events, Listening, Part, Refusal, Reply, Request, Server, Service, Token};

/// The address of the page, if none is given.
const PAGE_ADDRESS: &str = "127.0.0.1:9465";

/// What is served where.
#[derive(Debug, Clone)]
pub struct ApiParams {
    /// `[HOST:]PORT`, or `unix:PATH`.
    pub address: String,
    /// The file with the token.
    pub token_file: Option<PathBuf>,
    /// With the page at `/`.
    pub has_page: bool,
}

impl ApiParams {
    /// What the options of a recorder state.
    ///
    /// # Errors
    /// There is a token for nothing.
    pub fn of(options: &RecorderOptions) -> Result<Option<Self>, Failure> {
        let address = options.api.clone().or_else(|| options.page.then(|| PAGE_ADDRESS.to_string()));
        if address.is_none() && options.api_token_file.is_some() {
            return Err(Failure::new("--api-token-file is for --api or --page"));
        }
        let (token_file, has_page) = (options.api_token_file.clone(), options.page);
        Ok(address.map(|address| Self { address, token_file, has_page }))
    }

    /// The path of the socket file, if the address is one.
    pub fn socket(&self) -> Option<&Path> {
        self.address.strip_prefix("unix:").map(Path::new)
    }
}

/// The socket of the server, before it serves.
pub struct Door {
    listening: Listening,
    admission: Admission,
    has_page: bool,
    /// What is said when the server serves.
    place: String,
    /// The socket file, which is removed at the end.
    file: Option<PathBuf>,
}

impl Door {
    /// Listens. Called before rights are given up: the file of the token may be one of root.
    ///
    /// # Errors
    /// The address cannot be used, or others could reach it without a token; the file has no token.
    pub fn open(params: &ApiParams) -> Result<Self, Failure> {
        let ApiParams { address, token_file, has_page } = params;
        let option = if *address == PAGE_ADDRESS && *has_page { "--page" } else { "--api" };
        let wrong = |why: String| Failure::new(format!("{option} {address}: {why}"));
        if let Some(path) = params.socket() {
            if token_file.is_some() {
                return Err(wrong("a socket file needs no token: its rights say who may ask".to_string()));
            }
            let listener = sockets::listen(path).map_err(|error| wrong(error.to_string()))?;
            let place = format!(
                "at the socket {}: curl --unix-socket {0} http://localhost/api/v1/status",
                path.display()
            );
            let (listening, file) = (Listening::File(listener), Some(path.to_path_buf()));
            return Ok(Self { listening, admission: Admission::Socket, has_page: *has_page, place, file });
        }
        let addresses = weir_web::addresses(address, 9465).map_err(wrong)?;
        let open = addresses.iter().find(|address| !address.ip().is_loopback());
        let admission = match (token_file, open) {
            (Some(path), _) => Admission::Given(token_in(path)?),
            (None, Some(open)) => {
                return Err(wrong(format!(
                    "other hosts can reach {open}: give a token with --api-token-file FILE, or listen on 127.0.0.1"
                )));
            }
            (None, None) => Admission::Own(Token::random().map_err(Failure::new)?),
        };
        let listener = weir_web::bind(&addresses).map_err(wrong)?;
        let bound = listener.local_addr().map_err(Failure::new)?;
        let place = match (&admission, has_page) {
            // Browsers keep what is behind `#` to themselves; the page reads it.
            (Admission::Own(token), true) => format!("at http://{bound}/#token={}", token.text()),
            (Admission::Own(token), false) => {
                format!("at http://{bound}/api/v1/status?token={}", token.text())
            }
            (_, true) => format!("at http://{bound}/"),
            (_, false) => format!("at http://{bound}/api/v1/"),
        };
        Ok(Self { listening: Listening::Port(listener), admission, has_page: *has_page, place, file: None })
    }
}

/// The token in a file that nobody else can read.
fn token_in(path: &Path) -> Result<Token, Failure> {
    let wrong =
        |why: &dyn std::fmt::Display| Failure::new(format!("--api-token-file {}: {why}", path.display()));
    let text = secrets::read(path).map_err(|error| wrong(&error))?;
    Token::of(&text).map_err(|why| wrong(&why))
}

/// The server, with everything that it shows.
pub struct Api {
    server: Option<Server>,
    _ticker: Ticker,
    file: Option<PathBuf>,
    dumps: Option<Arc<FilterDumps>>,
}

impl Api {
    /// Serves the state of a recording of `run`, whose counters `watch` shows.
    ///
    /// # Errors
    /// The system makes no thread.
    pub fn start(door: Door, recording: &Recording, run: &Run<'_>, watch: &Watch) -> Result<Self, Failure> {
        let set = run.set();
        let events = Events::default();
        let past = Arc::new(Past::new(recording, set));
        let asker = recording.dump_asker();
        let dumps = asker.clone().map(|asker| Arc::new(FilterDumps::new(asker)));
        if let Some(asker) = &asker {
            let events = events.clone();
            asker.list().tell(Box::new(move |event| match event {
                DumpEvent::Changed(dump) => events.publish("dump", &status::dump(dump).to_string()),
                DumpEvent::Matched { trigger, uid } => {
                    events.publish("trigger", &json!({ "trigger": trigger, "uid": uid }).to_string());
                }
            }));
        }
        let state = Arc::new(State::new(set, recording, Arc::clone(&past), (watch.clone(), events.clone())));
        let standing = Standing::new(run, &recording.options().trigger, asker.clone(), events.clone());
        let service = Arc::new(Recorder {
            past,
            results: Results::default(),
            state: Arc::clone(&state),
            standing,
            asker,
            dumps: dumps.clone(),
        });
        let ticker = Ticker::start(&state).map_err(Failure::new)?;
        let rules = (door.admission, door.has_page);
        let server = Server::start(door.listening, rules, service, events).map_err(Failure::new)?;
        state.set_refused(server.refused());
        // Also with -q: without the address, nobody knows the token.
        tell!("weir: the {} is {}", if door.has_page { "page" } else { "API" }, door.place);
        Ok(Self { server: Some(server), _ticker: ticker, file: door.file, dumps })
    }

    /// Ends the server, and completes dumps of filters. Called before the recording ends.
    pub fn finish(mut self) {
        drop(self.server.take());
        // Without the rights to remove the file, the next recorder replaces it.
        self.file.iter().for_each(|file| drop(fs::remove_file(file)));
        self.dumps.iter().for_each(|dumps| dumps.finish());
    }
}

/// Answers requests.
struct Recorder {
    past: Arc<Past>,
    results: Results,
    state: Arc<State>,
    standing: Standing,
    asker: Option<DumpAsker>,
    dumps: Option<Arc<FilterDumps>>,
}

impl Recorder {
    fn asker(&self) -> Result<&DumpAsker, Refusal> {
        self.asker.as_ref().ok_or_else(|| {
            Refusal::conflict("this recorder has no place for dumps")
                .with_hint("start weir record with --dumps DIR")
        })
    }

    fn dump_file(&self, name: &str) -> Result<Reply, Refusal> {
        let asker = self.asker()?;
        let path = dump_list::file_of(&asker.place().directory, name)
            .ok_or_else(|| Refusal::missing(format!("there is no dump `{name}`")))?;
        let file = File::open(&path).map_err(|error| Refusal::failed(error.to_string()))?;
        // A file that is being written is sent as far as it is now.
        let bytes = file.metadata().map_err(|error| Refusal::failed(error.to_string()))?.len();
        Ok(Reply::Stream {
            content_type: PCAPNG,
            file_name: name.to_string(),
            bytes: Some(bytes),
            write: Box::new(move |output| io::copy(&mut io::Read::take(file, bytes), output).map(drop)),
        })
    }

    fn end_dump(&self, name: &str) -> Result<Reply, Refusal> {
        let asker = self.asker()?;
        let all = asker.list().all(&asker.place().directory);
        let dump = all.iter().find(|dump| dump.file == name || dump.name == name);
        let dump = dump.ok_or_else(|| Refusal::missing(format!("there is no dump `{name}`")))?;
        if dump.state != dump_list::DumpState::Begun {
            return Err(Refusal::conflict("the dump has ended")
                .with_hint("files of dumps are removed in their directory, not by the API"));
        }
        if !self.dumps.as_ref().is_some_and(|dumps| dumps.end(&dump.name)) {
            asker.end(&dump.name);
        }
        Ok(Reply::Done)
    }
}

impl Service for Recorder {
    fn answer(&self, request: Request, client: &Client) -> Result<Reply, Refusal> {
        match request {
            Request::Status => Ok(Reply::Json(self.state.status().to_string())),
            Request::Timeline { span, buckets } => {
                Ok(Reply::Json(self.state.timeline(&span, buckets)?.to_string()))
            }
            Request::Rows(asked) => {
                let limit = asked.limit;
                let found = self.past.rows(asked, client)?;
                Ok(Reply::Json(self.results.first_page(found, limit)))
            }
            Request::MoreRows { cursor, limit } => self.results.page(&cursor, limit).map(Reply::Json),
            Request::Packets { filter, span } => self.past.packets(filter, &span, client),
            Request::Connection { uid, part, filter, span } => {
                let found = self.past.connection(&uid, &filter, &span, client)?;
                match part {
                    Part::Packets => self.past.packets_of(&found, client),
                    Part::Streams => self.past.streams_of(&found, client).map(Reply::Json),
                    Part::Sessions => self.past.sessions_of(&found, client).map(Reply::Json),
                }
            }
            Request::Triggers => Ok(Reply::Json(self.standing.triggers().to_string())),
            Request::AddTrigger { filter } => {
                self.asker()?;
                self.standing.add_trigger(&filter).map(|made| Reply::Created(made.to_string()))
            }
            Request::RemoveTrigger(id) => self.standing.remove_trigger(id).map(|()| Reply::Done),
            Request::Dumps => {
                let asker = self.asker()?;
                let all = asker.list().all(&asker.place().directory);
                let all: Vec<_> = all.iter().map(status::dump).collect();
                Ok(Reply::Json(json!({ "dumps": all }).to_string()))
            }
            Request::AddDump { filter, before, after } => {
                self.asker()?;
                let Some(dumps) = &self.dumps else { return Err(Refusal::not_found()) };
                let made = dumps.begin(&self.past, &filter, (before, after))?;
                Ok(Reply::Created(made.to_string()))
            }
            Request::Dump(name) => self.dump_file(&name),
            Request::EndDump(name) => self.end_dump(&name),
            Request::Questions => Ok(Reply::Json(self.standing.questions().to_string())),
            Request::AddQuestion { ask, filter } => {
                self.standing.add_question(&ask, &filter).map(|made| Reply::Created(made.to_string()))
            }
            Request::RemoveQuestion(id) => self.standing.remove_question(id).map(|()| Reply::Done),
            Request::Check(filter) => Ok(Reply::Json(self.past.check(&filter).to_string())),
            Request::Complete { filter, at } => {
                self.past.complete(&filter, at).map(|found| Reply::Json(found.to_string()))
            }
        }
    }
}
