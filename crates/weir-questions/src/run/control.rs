//! The control socket of `weir run`: it adds, lists, changes and removes questions during the run. Each
//! request and each answer is one line of JSON. `weir ctl` is one client; other programs may also connect.
//!
//! ```text
//! {"do":"add","question":{"name":"com","ask":"tls","filter":"tls.sni contains \"com\"","output":"com.json"}}
//! {"do":"list"}
//! {"do":"change","name":"front","output":"udp://10.0.0.2:9000,10.0.0.3:9000"}
//! {"do":"remove","name":"com"}
//! ```

use crate::messages::failure::Failure;
use crate::run::control_socket::{self, LIMITS, Listening, Serve};
pub use crate::run::control_socket::{Bound, bind};
use crate::run::question_changes::QuestionChanges;
use crate::spec::QuestionSpec;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// Adds a question.
    Add {
        /// The question.
        question: Box<QuestionSpec>,
    },
    /// Lists the questions.
    List,
    /// Changes the instances of a question.
    Change {
        /// Name of the question.
        name: String,
        /// The instances.
        output: PathBuf,
    },
    /// Removes a question.
    Remove {
        /// Name of the question.
        name: String,
    },
}

/// The result of a request.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The request succeeded.
    pub ok: bool,
    /// The error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Time until the new program ran, in microseconds: to compile it, and to swap it in between two bursts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micros: Option<u64>,
    /// A remark on a successful request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// All questions, in answer to `list`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionSpec>,
}

/// Answers requests.
struct Service {
    changes: QuestionChanges,
}

/// Answers requests of a socket that only its owner may use.
pub fn listen(bound: Bound, changes: QuestionChanges) -> Result<Listening, Failure> {
    control_socket::listen(bound, LIMITS, Service { changes })
}

impl Serve for Service {
    fn answer(&self, request: &str) -> String {
        let began = Instant::now();
        let answer = match serde_json::from_str(request) {
            Ok(request) => self.carry_out(request),
            Err(wrong) => Err(wrong.to_string()),
        };
        match answer {
            Ok(answer) => {
                let micros = answer.questions.is_empty().then(|| began.elapsed().as_micros() as u64);
                text(&Answer { ok: true, micros, ..answer })
            }
            Err(error) => self.refuse(&error),
        }
    }

    fn refuse(&self, reason: &str) -> String {
        text(&Answer { error: Some(reason.to_string()), ..Answer::default() })
    }
}

fn text(answer: &Answer) -> String {
    serde_json::to_string(answer).unwrap_or_else(|wrong| format!("{{\"ok\":false,\"error\":\"{wrong}\"}}"))
}

impl Service {
    fn carry_out(&self, request: Request) -> Result<Answer, String> {
        let answer = Answer::default();
        match request {
            Request::Add { question } => Ok(Answer { note: self.changes.add(*question)?, ..answer }),
            Request::List => Ok(Answer { questions: self.changes.list()?, ..answer }),
            Request::Change { name, output } => self.changes.change(&name, output).map(|()| answer),
            Request::Remove { name } => self.changes.remove(&name).map(|()| answer),
        }
    }
}

/// Timeout of `ctl`. A run answers between two bursts, even without packets, but blocked outputs may delay
/// the answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Sends a request to the socket of a run.
pub fn ask(path: &Path, request: &Request) -> Result<Answer, Failure> {
    let at = |e: std::io::Error| Failure::new(format!("{}: {e}", path.display()));
    let mut stream = UnixStream::connect(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            Failure::new(format!("{}: no `weir run --control` uses this socket", path.display()))
        }
        _ => at(e),
    })?;
    let text = serde_json::to_string(request).map_err(Failure::new)?;
    match writeln!(stream, "{text}") {
        // The run refuses the connection: its answer has the reason.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.map_err(at)?,
    }
    stream.set_read_timeout(Some(ANSWER_MAX)).map_err(at)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::new(format!(
            "{}: no answer in {} s: the run waits for an output; the request is executed afterwards",
            path.display(),
            ANSWER_MAX.as_secs()
        )),
        _ => at(e),
    })?;
    if line.is_empty() {
        return Err(Failure::new(format!("{}: the run has ended", path.display())));
    }
    let answer: Answer = serde_json::from_str(&line).map_err(Failure::new)?;
    match answer.error {
        Some(error) => Err(Failure::new(error)),
        None => Ok(answer),
    }
}
