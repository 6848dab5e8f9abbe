//! The control socket of `weir run`: it adds, lists and removes questions during the run. Each request and each answer
//! is one line of JSON. `weir ctl` is one client; other programs may also connect.
//!
//! ```text
//! {"do":"add","question":{"name":"com","ask":"tls","filter":"tls.sni contains \"com\"","output":"com.json"}}
//! {"do":"list"}
//! {"do":"remove","name":"com"}
//! ```

use crate::failure::Failure;
use crate::question_set::{QuestionSet, Stated};
use crate::spec::QuestionSpec;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use weir::Control;

/// Maximum size of a request.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

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
    /// All questions, in answer to `list`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionSpec>,
}

/// The socket file, which is removed at the end of the run.
pub struct Listening(PathBuf);

impl Drop for Listening {
    fn drop(&mut self) {
        // The file may have been removed already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens on a socket that only its owner may use. Each connection is served by a thread of its own.
pub fn listen(path: &Path, control: Control, set: Arc<QuestionSet>) -> Result<Listening, Failure> {
    // A socket file without listener is left over from an earlier run and is replaced; one with a listener belongs to
    // another run.
    if UnixStream::connect(path).is_err() && path.exists() {
        let is_socket = std::os::unix::fs::FileTypeExt::is_socket(&file_type(path)?);
        if !is_socket {
            return Err(Failure::new(format!("{} is a file, not a socket", path.display())));
        }
        std::fs::remove_file(path).map_err(|e| Failure::writing(path.display(), &e))?;
    }
    let at = |e: std::io::Error| Failure::new(format!("{}: {e}", path.display()));
    let listener = UnixListener::bind(path).map_err(|e| match e.kind() {
        ErrorKind::AddrInUse => Failure::new(format!("{}: another run uses this socket", path.display())),
        _ => at(e),
    })?;
    // Questions create files, so no other user may send requests.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(at)?;
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Most likely no file descriptors are left; try again later.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            let (control, set) = (control.clone(), Arc::clone(&set));
            // If no thread can be created, the connection is closed.
            let _ = std::thread::Builder::new().spawn(move || serve(&stream, &control, &set));
        }
    });
    Ok(Listening(path.to_path_buf()))
}

fn file_type(path: &Path) -> Result<std::fs::FileType, Failure> {
    let about = std::fs::symlink_metadata(path).map_err(|e| Failure::writing(path.display(), &e))?;
    Ok(about.file_type())
}

/// Serves one connection, one request per line, until the client closes it.
fn serve(stream: &UnixStream, control: &Control, set: &QuestionSet) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        match (&mut reader).take(REQUEST_BYTES_MAX).read_line(&mut line) {
            // The last line may lack its line end. A line longer than the bound is not a request.
            Ok(bytes @ 1..) if line.ends_with('\n') || (bytes as u64) < REQUEST_BYTES_MAX => {}
            _ => return,
        }
        let began = Instant::now();
        let answer = match serde_json::from_str(&line) {
            Ok(request) => carry_out(request, control, set),
            Err(wrong) => Err(wrong.to_string()),
        };
        let answer = match answer {
            Ok(answer) => {
                let micros = answer.questions.is_empty().then(|| began.elapsed().as_micros() as u64);
                Answer { ok: true, micros, ..answer }
            }
            Err(error) => Answer { error: Some(error), ..Answer::default() },
        };
        let Ok(text) = serde_json::to_string(&answer) else { return };
        let mut stream = stream;
        if writeln!(stream, "{text}").is_err() {
            return;
        }
    }
}

fn carry_out(request: Request, control: &Control, set: &QuestionSet) -> Result<Answer, String> {
    // The lock covers both check and subscription, so that concurrent requests cannot take the same name.
    let mut names = set.names.lock().unwrap_or_else(PoisonError::into_inner);
    match request {
        Request::Add { question } => {
            let stated = Stated::new(*question);
            let prepared = set.admit(&stated, names.values().map(|(_, other)| other));
            let prepared = prepared.map_err(|wrong| Failure::Several(wrong).to_string())?;
            let added = control.subscribe_questions(prepared.questions, prepared.answers)?;
            names.insert(stated.spec.name.clone(), (added, stated));
            Ok(Answer::default())
        }
        Request::List => {
            let live = control.list()?;
            // A question whose output failed has already ended.
            names.retain(|_, (subscription, _)| {
                live.iter().any(|listed| listed.subscription == *subscription)
            });
            let mut questions: Vec<QuestionSpec> =
                names.values().map(|(_, stated)| stated.spec.clone()).collect();
            questions.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(Answer { questions, ..Answer::default() })
        }
        Request::Remove { name } => {
            let known = names.get(&name).map(|(subscription, _)| *subscription);
            let subscription = known.ok_or_else(|| format!("there is no question called `{name}`"))?;
            control.unsubscribe(subscription)?;
            names.remove(&name);
            Ok(Answer::default())
        }
    }
}

/// Timeout of `ctl`. A run answers between two bursts, even without packets, but slow outputs may delay the answer.
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
    writeln!(stream, "{text}").map_err(at)?;
    stream.set_read_timeout(Some(ANSWER_MAX)).map_err(at)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::new(format!(
            "{}: no answer in {} s: the run waits for the reader of its rows; the request is executed afterwards",
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
