//! The questions of a run: checks each against the others, and prepares it.

use crate::contents::extraction::{Extraction, Store};
use crate::contents::stream_files::Files;
use crate::form::Form;
use crate::input_options::Input;
use crate::kind::{Context, QuestionKinds, Resolved};
use crate::kinds;
use crate::messages::failure::Failure;
use crate::metrics::totals::RunTotals;
use crate::output::answers::{Answers, QuestionOutput, RunParts, Shown};
use crate::output::export;
use crate::output::file_budget::{FILES_MAX, FileBounds, FileBudget};
use crate::output::outlets::Outlets;
use crate::output::place::{self, FileId};
use crate::output::rotation::Rotation;
use crate::rows::shown_rows::ShownRows;
use crate::rows::view::View;
use crate::source::memory;
use crate::spec::{QuestionSpec, Stdout};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use weir::io::{Findings, Options, Partitions};
use weir::packet::Column;
use weir::{ColumnMask, Compiler, Log, Need, Question, Shape, Subscription, Want};
use weir_detect::{Detection, FirstBytes};

/// The code of an unknown field in a filter.
const UNKNOWN_FIELD: &str = "W0106";

/// The questions of a run by name, and their shared state.
pub struct QuestionSet {
    /// The active questions.
    pub names: Mutex<HashMap<String, Active>>,
    /// The captures that the run reads.
    pub input: Input,
    /// What the reader finds in captures beside packets.
    pub findings: Findings,
    /// The compiler that checks filters.
    pub compiler: Compiler,
    /// Shared faults and counts of the outputs.
    pub totals: RunTotals,
    /// The threads of the outputs.
    pub outlets: Arc<Outlets>,
    /// The extraction, and the name of the question that states it.
    extraction: Option<(String, Arc<Extraction>)>,
    /// The first bytes of files, for rules.
    file_contents: Option<Arc<FirstBytes>>,
    /// Number of questions at the start of the run that keep something.
    keepers: usize,
    kinds: QuestionKinds,
    stdout: Stdout,
}

/// A question of the run.
pub struct Active {
    /// Its subscription.
    pub subscription: Subscription,
    /// The question.
    pub stated: Stated,
    /// Its output.
    pub output: QuestionOutput,
}

/// A question with the files that it writes.
pub struct Stated {
    /// The question.
    pub spec: QuestionSpec,
    output: Option<FileId>,
    files: Option<FileId>,
    spool: Option<FileId>,
}

impl Stated {
    /// Looks up the files of a question.
    pub fn new(spec: QuestionSpec) -> Self {
        let id = |path: &Option<PathBuf>| path.as_deref().and_then(place::file_id);
        Self { output: id(&spec.output), files: id(&spec.files), spool: id(&spec.spool), spec }
    }

    /// Why the question cannot run beside the other one: both would write to one place.
    fn conflict(&self, other: &Stated) -> Option<String> {
        let name = &other.spec.name;
        for (mine, path) in [(&self.output, &self.spec.output), (&self.files, &self.spec.files)] {
            if let (Some(_), Some(path)) = (mine, path)
                && (*mine == other.output || *mine == other.files)
            {
                return Some(format!("{} is the output of `{name}`: use another file", path.display()));
            }
        }
        if let Some(spool) =
            self.spec.spool.as_ref().filter(|_| self.spool.is_some() && self.spool == other.spool)
        {
            return Some(format!("{} is the spool of `{name}`: use another directory", spool.display()));
        }
        let both_to_stdout = self.spec.output.is_none() && other.spec.output.is_none();
        (both_to_stdout && !(self.spec.is_json() && other.spec.is_json()))
            .then(|| format!("`{name}` also writes to standard output: give one of them an `output`"))
    }
}

/// A question ready for subscription.
pub struct Prepared {
    /// The questions for the engine.
    pub questions: Vec<Question>,
    /// The output of the answers.
    pub answers: Answers,
    /// The output of the answers, for those who wait for it.
    pub output: QuestionOutput,
    /// A line for the report of counters.
    pub note: Option<String>,
    /// The run reports the bytes that its streams lack.
    pub lost_bytes: bool,
}

/// A question whose rows another program reads.
pub struct SettledRows {
    /// The questions for the engine.
    pub questions: Vec<Question>,
    /// The name of the log of the rows; may be empty.
    pub log: &'static str,
    /// The columns of the rows.
    pub columns: Vec<Column>,
    /// Makes rows of the items.
    pub rows: ShownRows,
    /// The run reports the bytes that its streams lack.
    pub lost_bytes: bool,
}

impl QuestionSet {
    /// An empty set.
    pub fn new(input: Input, compiler: Compiler, stdout: Stdout) -> Self {
        let kinds = QuestionKinds::new(kinds::all());
        let (findings, totals) = (Findings::default(), RunTotals::default());
        let outlets = Arc::new(Outlets::new(&input, stdout));
        Self {
            names: Mutex::default(),
            input,
            findings,
            compiler,
            totals,
            outlets,
            extraction: None,
            file_contents: None,
            keepers: 0,
            kinds,
            stdout,
        }
    }

    /// Prepares what the questions at the start of the run share: the memory for what they keep, and the
    /// extraction of the first question that states one, since parsers pass contents on from the start.
    ///
    /// # Errors
    /// `--extract-max` or `--memory` is no number of bytes.
    pub fn share(&mut self, specs: &[QuestionSpec]) -> Result<(), Failure> {
        self.keepers = specs.iter().filter(|spec| self.keeps(spec)).count();
        let stated = specs.iter().find_map(|spec| Some((spec, spec.extract.clone()?)));
        let has_rules = self.input.has_rules || specs.iter().any(|spec| !spec.rules.is_empty());
        if has_rules {
            Detection::inspect_early(&mut self.compiler);
        }
        let Some((spec, directory)) = stated else {
            if has_rules {
                let store = Arc::new(FirstBytes::default());
                self.compiler.pass_contents_to(Arc::clone(&store) as _);
                self.file_contents = Some(store);
            }
            return Ok(());
        };
        let option = "--extract-max";
        let bounds = FileBounds::of(option, spec.extract_max.as_deref(), &directory, FILES_MAX)?;
        let budget = FileBudget::new(option, bounds, &directory);
        let thread = (self.outlets.of(Some(&directory)), self.outlets.patience().clone());
        let files = Files::new(directory, place::inputs(&self.input), thread, budget);
        let extraction = Arc::new(Extraction::new(files, self.memory_max(0)?));
        self.compiler.pass_contents_to(Arc::new(Store(Arc::clone(&extraction))));
        self.extraction = Some((spec.name.clone(), extraction));
        Ok(())
    }

    /// Where rules find the first bytes of files.
    pub fn file_contents(&self) -> Option<&Arc<FirstBytes>> {
        self.file_contents.as_ref()
    }

    /// Whether a question keeps something until later rows, or until the end of the run.
    fn keeps(&self, spec: &QuestionSpec) -> bool {
        let has_view = spec.sort.is_some() || !spec.names.is_empty();
        has_view || self.kinds.get(&spec.ask).is_ok_and(|kind| (kind.keeps)(spec))
    }

    /// Bytes of memory for each thing that a question keeps, if at least this many questions keep something.
    fn memory_max(&self, keepers: usize) -> Result<usize, Failure> {
        memory::of_question(&self.input, self.keepers.max(keepers))
    }

    /// Checks and prepares a question that is to run beside `others`: it needs a name and outputs of its own.
    /// Returns all mistakes. Nothing is created: the output is not touched until a program answers the
    /// question; if compilation fails, an existing file stays as it is.
    pub fn admit<'a>(
        &self,
        stated: &Stated,
        others: impl IntoIterator<Item = &'a Stated>,
    ) -> Result<Prepared, Vec<Failure>> {
        let spec = &stated.spec;
        if self.stdout.is_shared && (spec.name.is_empty() || spec.name.contains(char::is_control)) {
            return Err(vec![Failure::new("a question needs a name of printable characters")]);
        }
        let (mut wrong, mut keepers) = (vec![], usize::from(self.keeps(spec)));
        for other in others {
            keepers += usize::from(self.keeps(&other.spec));
            if other.spec.name == spec.name {
                wrong.push(Failure::new(format!("two questions are called `{}`", spec.name)));
            } else {
                wrong.extend(stated.conflict(other).map(|message| self.named(spec, Failure::new(message))));
            }
        }
        let memory_max = self.memory_max(keepers).map_err(|wrong| vec![wrong])?;
        let output = spec.output.as_ref().map_or(Ok(()), |path| {
            place::refuse_input(path, &self.input)?;
            if place::endpoint(path)?.is_some_and(|one| self.outlets.clients().handover.is_given_up(&one)) {
                // The port is in use by the question that this one replaces.
                return Ok(());
            }
            if spec.is_replaced() { place::check_replaceable(path) } else { place::check(path) }
        });
        let mut directories = [&spec.files, &spec.extract, &spec.spool].into_iter().flatten();
        let files = directories.try_for_each(|path| place::check_directory(path));
        let (filter, resolved) = self.settle(spec, memory_max);
        wrong
            .extend([output, files, filter].into_iter().filter_map(Result::err).map(|w| self.named(spec, w)));
        match resolved {
            Ok((resolved, shown)) if wrong.is_empty() => Ok(self.prepare(spec, resolved, shown)),
            resolved => {
                wrong.extend(resolved.err().map(|w| self.named(spec, w)));
                Err(wrong)
            }
        }
    }

    /// Resolves a question, and what is shown of its rows. The first result is that of its filters.
    fn settle(
        &self,
        spec: &QuestionSpec,
        memory_max: usize,
    ) -> (Result<(), Failure>, Result<(Resolved, Shown), Failure>) {
        match (self.kinds.get(&spec.ask), self.resolve(spec, memory_max)) {
            (_, Ok((mut resolved, form))) => {
                let limit = spec.limit.filter(|_| !resolved.has_own_limit);
                let shown = QuestionSpec { limit, ..spec.clone() };
                let view = View::of(&shown, form, &resolved, memory_max);
                let view = view.and_then(|view| self.check_rows(spec, &resolved, &view, form).map(|()| view));
                let shown = view.and_then(|view| {
                    // Values that nobody sees are not computed.
                    let needed = match form {
                        Form::Count => ColumnMask::NONE,
                        _ => view.needed(resolved.columns.len()),
                    };
                    if let Some(show_columns) = resolved.show_columns.take() {
                        show_columns(&mut resolved.questions, needed);
                    }
                    let rotation = Rotation::of(spec, form, &view.columns)?;
                    export::check(spec, form, resolved.log, &view.columns)?;
                    Ok(Shown { view, form, rotation })
                });
                let filters =
                    self.check_filters(&resolved).map_err(|wrong| self.prefer_own(spec, &resolved, wrong));
                (filters, shown.map(|shown| (resolved, shown)))
            }
            // Also check the filter of a question of unknown type.
            (Err(_), Err(wrong)) => (self.check_filter(&spec.filter), Err(wrong)),
            (Ok(_), Err(wrong)) => (Ok(()), Err(wrong)),
        }
    }

    /// The engine's questions of a question, for those who show how it is answered.
    ///
    /// # Errors
    /// All mistakes in the question.
    pub fn questions_of(&self, spec: &QuestionSpec) -> Result<Vec<Question>, Failure> {
        let (filter, resolved) = self.settle(spec, self.memory_max(0)?);
        let mut wrong: Vec<Failure> = filter.err().into_iter().collect();
        match resolved {
            Ok((resolved, _)) if wrong.is_empty() => Ok(resolved.questions),
            resolved => {
                wrong.extend(resolved.err());
                Err(Failure::Several(wrong))
            }
        }
    }

    /// Resolves a question whose rows another program reads, as the engine's questions and the rows of their
    /// items.
    ///
    /// # Errors
    /// All mistakes in the question. Its answers are no rows.
    pub fn settle_rows(&self, spec: &QuestionSpec) -> Result<SettledRows, Failure> {
        let (filter, resolved) = self.settle(spec, self.memory_max(0)?);
        let mut wrong: Vec<Failure> = filter.err().into_iter().collect();
        match resolved {
            Ok((mut resolved, shown)) if wrong.is_empty() && matches!(shown.form, Form::Rows(_)) => {
                let (mut questions, view) = (std::mem::take(&mut resolved.questions), shown.view);
                let naming = view.learns_names().then(|| self.naming(&mut questions)).flatten();
                let columns = view.columns.clone();
                let rows = ShownRows { rows: resolved.rows, view, naming };
                let (log, lost_bytes) = (resolved.log, resolved.lost_bytes);
                Ok(SettledRows { questions, log, columns, rows, lost_bytes })
            }
            Ok(_) if wrong.is_empty() => Err(Failure::new("the answers of this question are no rows")),
            resolved => {
                wrong.extend(resolved.err());
                Err(Failure::Several(wrong))
            }
        }
    }

    /// Adds a question for all DNS answers. Returns its index, and the columns of its rows.
    fn naming(&self, questions: &mut Vec<Question>) -> Option<(usize, Vec<Column>)> {
        let log = Log::of(self.compiler.sessions(), "dns")?;
        let ask =
            weir::Ask { filter: String::new(), need: Need::default(), want: Want::Sessions(log.asked()) };
        questions.push(Question::new(ask, Shape { all_rows: true, ..log.shape() }));
        Some((questions.len() - 1, log.columns()))
    }

    fn prepare(&self, spec: &QuestionSpec, mut resolved: Resolved, shown: Shown) -> Prepared {
        let (mut questions, note) = (std::mem::take(&mut resolved.questions), resolved.note.take());
        let naming = shown.view.learns_names().then(|| self.naming(&mut questions)).flatten();
        let lost_bytes = resolved.lost_bytes;
        let run = RunParts {
            stdout: self.stdout,
            findings: &self.findings,
            totals: &self.totals,
            outlets: &self.outlets,
        };
        let losses = questions.iter().map(Question::losses).collect();
        resolved.series.iter().for_each(|series| self.totals.add_series(series));
        let answers = Answers::new(spec, resolved, shown, losses, &run);
        let answers = match naming {
            Some((question, columns)) => answers.with_naming(question, columns),
            None => answers,
        };
        Prepared { questions, output: answers.output(), answers, note, lost_bytes }
    }

    fn resolve(&self, spec: &QuestionSpec, memory_max: usize) -> Result<(Resolved, Form), Failure> {
        let kind = self.kinds.get(&spec.ask)?;
        kind.check_options(spec)?;
        let form = kind.form(spec, self.stdout)?;
        let (compiler, findings) = (&self.compiler, &self.findings);
        let context = Context {
            compiler,
            bpf: self.input.bpf,
            findings,
            form: &form,
            inputs: place::inputs(&self.input),
            captures: &self.input.read,
            outlets: &self.outlets,
            memory_max,
            file_contents: self.file_contents.as_deref(),
            extraction: self.extraction.as_ref().map(|(name, extraction)| (name.as_str(), extraction)),
        };
        Ok(((kind.resolve)(spec, &context)?, form))
    }

    fn check_filters(&self, resolved: &Resolved) -> Result<(), Failure> {
        resolved.questions.iter().map(Question::filter).try_for_each(|filter| self.check_filter(filter))
    }

    /// If a filter names a column of the question's own log instead of its field, suggests the field.
    fn prefer_own(&self, spec: &QuestionSpec, resolved: &Resolved, wrong: Failure) -> Failure {
        let Failure::Mistakes(mut mistakes) = wrong else { return wrong };
        let registry = self.compiler.sessions();
        let protocol = registry.number_of(&spec.ask).map(|number| registry.protocol(number));
        for mistake in mistakes.list.iter_mut().filter(|mistake| mistake.code == UNKNOWN_FIELD) {
            let name = mistake
                .spans
                .first()
                .and_then(|(span, _)| spec.filter.get(span.start as usize..span.end as usize));
            let column = name.and_then(|name| resolved.columns.iter().find(|column| column.name == name));
            let Some(column) = column else { continue };
            let field = match protocol {
                Some(protocol) => protocol.fields.iter().find(|field| field.column == column.name),
                None => None,
            };
            let field = field.map(|field| field.aliases.first().unwrap_or(&field.name).to_string());
            let field = field.unwrap_or_else(|| format!("conn.{}", column.name));
            if self.compiler.check_filter(&field, false).is_ok() {
                mistake.help =
                    Some(format!("did you mean `{field}`, the field of the column `{}`?", column.name));
            }
        }
        Failure::Mistakes(mistakes)
    }

    fn check_filter(&self, filter: &str) -> Result<(), Failure> {
        Ok(self.compiler.check_filter(filter, self.input.bpf)?)
    }

    /// Adds the name of the question to a failure, if the run has several questions.
    pub fn named(&self, spec: &QuestionSpec, wrong: Failure) -> Failure {
        if self.stdout.is_shared { wrong.of_question(&spec.name) } else { wrong }
    }

    /// Checks that the format can hold the question's rows, and that it is allowed for the output.
    fn check_rows(
        &self,
        spec: &QuestionSpec,
        resolved: &Resolved,
        view: &View,
        form: Form,
    ) -> Result<(), Failure> {
        if matches!(form, Form::Capture(_)) && spec.output.is_none() && self.stdout.screen.is_some() {
            return Err(Failure::new("a capture cannot be printed on a terminal: use -w FILE, or a pipe"));
        }
        let Form::Rows(format) = form else { return Ok(()) };
        if let Some(directory) = spec.output.as_deref().filter(|path| place::is_directory(path)) {
            Partitions::new(directory, format, &Options::default()).map_err(Failure::new)?;
        }
        place::refuse_terminal(format, spec.output.as_deref(), self.stdout)?;
        let options = Options { path: resolved.log, ..Options::default() };
        let mut nowhere = weir::io::sink::create(format, Box::new(io::sink()), &options);
        Ok(nowhere.begin(&view.columns)?)
    }
}
