//! The state of the screen of `weir top`, and what keys do to it.

use super::history::History;
use super::lock;
use super::panes::Pane;
use super::recording;
use super::sheet::{Selection, Sheet, Sort};
use super::traffic::Traffic;
use crate::terminal;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir::Connection;
use weir::{Glance, Watch};
use weir_questions::Ends;

/// Bytes of a filter that is being edited.
const FILTER_BYTES_MAX: usize = 4096;

/// Time for which a message of the run is shown.
const NOTICE_TIME: Duration = Duration::from_secs(5);

/// What the screen asks of the run.
pub trait Requests {
    /// Checks a filter.
    ///
    /// # Errors
    /// All mistakes, as text of several lines.
    fn check(&self, filter: &str) -> Result<(), String>;

    /// Shows only the traffic that matches from now on.
    ///
    /// # Errors
    /// The run is over.
    fn select(&mut self, filter: &str) -> Result<(), String>;

    /// Writes the further packets that match to a new file.
    ///
    /// # Errors
    /// The run is over, or the file cannot be created.
    fn record(&mut self, filter: &str, file: &Path) -> Result<(), String>;

    /// Completes the file of packets.
    ///
    /// # Errors
    /// The file cannot be written.
    fn stop_recording(&mut self) -> Result<(), String>;

    /// Whether filters have the syntax of pcap-filter(7).
    fn is_bpf(&self) -> bool;
}

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    BackTab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-U.
    Clear,
}

/// What keys act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// The tables.
    Tables,
    /// The help.
    Help,
    /// The filter: its text, and what is wrong with it.
    Filter(String, Option<String>),
}

/// A running recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The connection.
    pub uid: String,
    /// The file.
    pub file: String,
}

/// The screen.
pub struct App<R> {
    run: R,
    traffic: Arc<Mutex<Traffic>>,
    watch: Watch,
    /// What is shown while the screen is paused.
    paused: Option<Box<(Traffic, Glance)>>,
    pub history: History,
    pub pane: Pane,
    sorts: [Sort; Pane::ALL.len()],
    selections: [Selection; Pane::ALL.len()],
    /// The table that was drawn last, with its height.
    pub sheet: Option<Sheet>,
    pub height: usize,
    pub mode: Mode,
    /// The filter of the traffic that is shown.
    pub filter: String,
    /// The names of the captures.
    pub source: String,
    /// The answer to the last key.
    pub message: Option<String>,
    /// The last message of the run, and when it came.
    notice: Option<(String, Instant)>,
    pub recording: Option<Recording>,
    pub is_over: bool,
    /// Connections that had no place in the list.
    pub unlisted: u64,
    pub glance: Glance,
    pub is_colored: bool,
}

impl<R: Requests> App<R> {
    /// A screen of this traffic.
    pub fn new(run: R, traffic: Arc<Mutex<Traffic>>, watch: Watch, source: String, filter: String) -> Self {
        Self {
            run,
            traffic,
            watch,
            paused: None,
            history: History::default(),
            pane: Pane::Connections,
            sorts: [Sort { column: 0, is_descending: true }; Pane::ALL.len()],
            selections: Default::default(),
            sheet: None,
            height: 10,
            mode: Mode::Tables,
            filter,
            source,
            message: None,
            notice: None,
            recording: None,
            is_over: false,
            unlisted: 0,
            glance: Glance::default(),
            is_colored: false,
        }
    }

    fn place(&self) -> usize {
        Pane::ALL.iter().position(|pane| *pane == self.pane).unwrap_or(0)
    }

    /// How the table is sorted.
    pub fn sort(&self) -> Sort {
        self.sorts[self.place()]
    }

    /// Whether the screen stands still.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// The answer to the last key, or a message of the run that has come a short while before `now`.
    pub fn message(&self, now: Instant) -> Option<&str> {
        let is_new = |(_, at): &&(String, Instant)| now.duration_since(*at) < NOTICE_TIME;
        let notice = self.notice.as_ref().filter(is_new).map(|(message, _)| message.as_str());
        self.message.as_deref().or(notice)
    }

    /// Takes the state of the run at this time, for the next drawing into a table of `height` lines.
    pub fn refresh(&mut self, now: Instant, height: usize) {
        self.height = height;
        let held = terminal::last_held();
        if held.as_ref() != self.notice.as_ref().map(|(message, _)| message) {
            self.notice = held.map(|message| (message, now));
        }
        let live = self.watch.glance();
        self.history.sample(now, &live);
        let place = self.place();
        let page = (&self.selections[place], height);
        let sort = self.sorts[place];
        let page = match &self.paused {
            Some(paused) => {
                let (traffic, glance) = &**paused;
                self.glance = *glance;
                self.pane.page(traffic, glance, sort, page)
            }
            None => {
                let traffic = lock(&self.traffic);
                (self.is_over, self.unlisted) = (traffic.is_over, traffic.unlisted);
                self.glance = live;
                self.pane.page(&traffic, &live, sort, page)
            }
        };
        // The traffic is not locked any more: the run needs it.
        self.sheet = Some(page());
        // A row of another page has a name once the page is there. Without a choice, the first row is
        // selected.
        let selection = &mut self.selections[place];
        if selection.id.is_none() && selection.position > 0 {
            let selected = self.sheet.as_ref().and_then(Sheet::selected_id);
            selection.id = selected.map(str::to_string);
        }
    }

    /// Does what the key says. Returns whether the program goes on.
    pub fn press(&mut self, key: Key) -> bool {
        if key == Key::Interrupt {
            return false;
        }
        match std::mem::replace(&mut self.mode, Mode::Tables) {
            Mode::Help => {}
            Mode::Filter(text, _) => self.edit(text, key),
            Mode::Tables => return self.press_in_tables(key),
        }
        true
    }

    fn press_in_tables(&mut self, key: Key) -> bool {
        self.message = None;
        let panes = Pane::ALL.len();
        match key {
            Key::Char('q') => return false,
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Char('/') => self.mode = Mode::Filter(self.filter.clone(), None),
            Key::Char('p' | ' ') => self.pause(),
            Key::Char('w') => self.record(),
            Key::Char('r') => {
                let sort = &mut self.sorts[self.place()];
                sort.is_descending = !sort.is_descending;
            }
            Key::Char('s' | '>') => self.sort_by(1),
            Key::Char('<') => self.sort_by(self.pane.columns().len() - 1),
            Key::Char(digit @ '1'..='5') => self.pane = Pane::ALL[digit as usize - '1' as usize],
            Key::Tab => self.pane = Pane::ALL[(self.place() + 1) % panes],
            Key::BackTab => self.pane = Pane::ALL[(self.place() + panes - 1) % panes],
            Key::Up | Key::Char('k') => self.select(|at, _| at.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.select(|at, _| at + 1),
            Key::PageUp => self.select(|at, height| at.saturating_sub(height)),
            Key::PageDown => self.select(|at, height| at + height),
            Key::Home => self.select(|_, _| 0),
            Key::End => self.select(|_, _| usize::MAX),
            _ => {}
        }
        true
    }

    fn sort_by(&mut self, step: usize) {
        let columns = self.pane.columns().len();
        let sort = &mut self.sorts[self.place()];
        sort.column = (sort.column + step) % columns;
    }

    fn pause(&mut self) {
        self.paused = match self.paused.take() {
            Some(_) => None,
            None => {
                let traffic = lock(&self.traffic);
                Some(Box::new((traffic.clone(), self.watch.glance())))
            }
        };
    }

    /// Moves the selection, and remembers the row there.
    fn select(&mut self, to: impl Fn(usize, usize) -> usize) {
        let Some(sheet) = &self.sheet else { return };
        let position = to(sheet.selected, self.height).min(sheet.total.saturating_sub(1));
        let row = position.checked_sub(sheet.first).and_then(|row| sheet.rows.get(row));
        let id = row.map(|(id, _)| id.clone());
        let place = self.place();
        self.selections[place] = Selection { id, position };
    }

    fn edit(&mut self, mut text: String, key: Key) {
        match key {
            Key::Escape => return,
            Key::Enter => {
                let wrong = match self.run.check(&text) {
                    Err(wrong) => Some(wrong),
                    Ok(()) => self.change_filter(&text).err(),
                };
                if let Some(wrong) = wrong {
                    self.mode = Mode::Filter(text, Some(wrong));
                }
                return;
            }
            Key::Backspace => drop(text.pop()),
            Key::Clear => text.clear(),
            Key::Char(char) if !char.is_control() && text.len() < FILTER_BYTES_MAX => text.push(char),
            _ => {}
        }
        self.mode = Mode::Filter(text, None);
    }

    fn change_filter(&mut self, filter: &str) -> Result<(), String> {
        // The end of the captures has completed the recording.
        self.recording = self.recording.take().filter(|_| !self.is_over);
        self.run.select(filter)?;
        self.filter = filter.to_string();
        self.paused = None;
        self.selections = Default::default();
        Ok(())
    }

    /// Begins to record the selected connection, or ends the recording.
    fn record(&mut self) {
        let said = match self.recording.take() {
            Some(Recording { file, .. }) => self.run.stop_recording().map(|()| format!("{file} is complete")),
            None => self.begin_recording(),
        };
        self.message = Some(said.unwrap_or_else(|wrong| wrong));
    }

    fn begin_recording(&mut self) -> Result<String, String> {
        let selected = self.sheet.as_ref().filter(|_| self.pane == Pane::Connections);
        let uid = selected.and_then(Sheet::selected_id).map(str::to_string);
        let record = uid.and_then(|uid| self.known(&uid));
        let record = record.ok_or("select a connection first: 1, then the arrow keys")?;
        let file = recording::file(Path::new(""), &record.uid)?;
        let ends = Ends::of(&record).ok_or("only connections over IP can be recorded")?;
        let filter = if self.run.is_bpf() { ends.bpf_filter() } else { ends.filter() };
        self.run.record(&filter, &file)?;
        let file = file.display().to_string();
        let said = format!("packets of {} go to {file} from now on; w ends the recording", record.uid);
        self.recording = Some(Recording { uid: record.uid, file });
        Ok(said)
    }

    fn known(&self, uid: &str) -> Option<Connection> {
        let traffic = lock(&self.traffic);
        traffic.connections.get(uid).map(|known| known.record.clone())
    }

    /// Ends a recording that still runs.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self) -> Result<(), String> {
        // At the end of the run, the outputs are completed anyway, and no question can be removed.
        if self.recording.take().is_none() {
            return Ok(());
        }
        let stopped = self.run.stop_recording();
        if lock(&self.traffic).is_over { Ok(()) } else { stopped }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::top::traffic::tests::record;

    /// A run that does what it is asked.
    #[derive(Default)]
    pub struct Obedient(pub Arc<Mutex<Vec<String>>>);

    impl Requests for Obedient {
        fn check(&self, filter: &str) -> Result<(), String> {
            weir::Compiler::default().check_filter(filter, false).map_err(|wrong| wrong.render(false))
        }

        fn select(&mut self, filter: &str) -> Result<(), String> {
            self.0.lock().unwrap().push(format!("select {filter}"));
            Ok(())
        }

        fn record(&mut self, filter: &str, file: &Path) -> Result<(), String> {
            self.0.lock().unwrap().push(format!("record {} {filter}", file.display()));
            Ok(())
        }

        fn stop_recording(&mut self) -> Result<(), String> {
            self.0.lock().unwrap().push("stop".to_string());
            Ok(())
        }

        fn is_bpf(&self) -> bool {
            false
        }
    }

    /// A screen over some connections, and what it asks of the run.
    pub fn app() -> (App<Obedient>, Arc<Mutex<Vec<String>>>) {
        let mut traffic = Traffic::default();
        for number in 1..=9 {
            traffic.report(record(number, [u64::from(number), 20], 1.5), number == 3);
        }
        let service = Some("ssl".into());
        traffic.report(Connection { service, ..record(7, [2000, 9000], 2.5) }, false);
        traffic.name("tls", "shop.example");
        traffic.name("dns", "bad\x1b]0;title\x07\u{202e}name");
        let run = Obedient::default();
        let asked = Arc::clone(&run.0);
        let traffic = Arc::new(Mutex::new(traffic));
        let mut app = App::new(run, traffic, Watch::default(), "eth0".into(), String::new());
        app.refresh(Instant::now(), 10);
        (app, asked)
    }

    fn type_keys(app: &mut App<Obedient>, text: &str) {
        text.chars().for_each(|char| assert!(app.press(Key::Char(char))));
    }

    #[test]
    fn the_filter_is_changed_once_it_is_right() {
        let (mut app, asked) = app();
        type_keys(&mut app, "/tcp.prt == 443");
        assert!(app.press(Key::Enter));
        let Mode::Filter(_, Some(wrong)) = &app.mode else { panic!("{:?}", app.mode) };
        assert!(wrong.contains("^^^^^^^") && wrong.contains("tcp.port"), "{wrong}");
        assert!(app.press(Key::Clear));
        type_keys(&mut app, "udp");
        assert!(app.press(Key::Enter));
        assert_eq!((app.mode.clone(), app.filter.as_str()), (Mode::Tables, "udp"));
        type_keys(&mut app, "/x");
        assert!(app.press(Key::Escape));
        assert_eq!(app.filter, "udp");
        assert_eq!(*asked.lock().unwrap(), ["select udp"]);
    }

    #[test]
    fn the_selected_connection_is_recorded() {
        let (mut app, asked) = app();
        assert!(app.press(Key::Down));
        app.refresh(Instant::now(), 10);
        let uid = app.sheet.as_ref().and_then(Sheet::selected_id).expect("a row").to_string();
        assert_eq!(uid, "C9", "the second largest");
        type_keys(&mut app, "w");
        assert_eq!(app.recording.as_ref().map(|recording| recording.uid.as_str()), Some("C9"));
        type_keys(&mut app, "w2w");
        assert_eq!(app.message.as_deref(), Some("select a connection first: 1, then the arrow keys"));
        let asked = asked.lock().unwrap();
        assert!(asked[0].starts_with("record weir-C9.pcapng (ip.src == 10.0.0.9 and tcp.srcport == 40000"));
        assert_eq!(asked[1..], ["stop"]);
    }

    #[test]
    fn a_paused_screen_stands_still() {
        let (mut app, _) = app();
        type_keys(&mut app, "p");
        app.traffic.lock().unwrap().report(record(77, [1_000_000, 0], 1.0), false);
        app.refresh(Instant::now(), 10);
        let top = |app: &App<Obedient>| app.sheet.as_ref().map(|sheet| sheet.rows[0].0.clone());
        assert_eq!(top(&app).as_deref(), Some("C7"));
        type_keys(&mut app, " ");
        app.refresh(Instant::now(), 10);
        assert_eq!(top(&app).as_deref(), Some("C77"));
        type_keys(&mut app, "r");
        app.refresh(Instant::now(), 10);
        assert_eq!(top(&app).as_deref(), Some("C1"));
    }
}
