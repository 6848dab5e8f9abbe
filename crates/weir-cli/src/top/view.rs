//! Draws the screen of `weir top`.

use super::app::{App, Mode, Requests};
use super::history::Rates;
use super::panes::Pane;
use super::sheet::{Column, fitting, scaled};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table};
use std::time::Instant;

/// Lines of the history of rates, with its headings.
const HISTORY_LINES: u16 = 4;

/// Terminals with fewer lines show no history.
const LINES_MIN: u16 = 16;

/// Lines beside the rows of the table: status, filter, names of the tables, heading, last line.
const OTHER_LINES: u16 = 5;

/// Characters for the names of the captures in the first line.
const SOURCE_MAX: usize = 16;

const HELP: &str = "\
1-5 tab    another table              up down page  select a row
s > <      sort by another column     r             in the other direction
p space    pause                      /             change the filter (Enter, Esc)
w          record the selected connection to a file; again: end the recording
q          quit                       ?             this help

Rates are those of all packets received; tables have the connections that
match the filter, about a second late. The state is that of Zeek's conn.log:
S1 is open, SF closed, S0 without an answer; `.` means that it has ended.";

/// The number of table rows that fit on a terminal of `height` lines.
pub fn table_lines(height: u16) -> usize {
    let history = if height < LINES_MIN { 0 } else { HISTORY_LINES };
    usize::from(height.saturating_sub(OTHER_LINES + history))
}

/// Draws the screen.
pub fn draw<R: Requests>(app: &App<R>, frame: &mut Frame<'_>) {
    let area = frame.area();
    let history = if area.height < LINES_MIN { 0 } else { HISTORY_LINES };
    let lines = [1, 1, history].map(Constraint::Length).into_iter();
    let lines = lines.chain([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)]);
    let [status, filter, history, tabs, table, last] = Layout::vertical(lines).areas(area);
    frame.render_widget(Paragraph::new(status_line(app)).style(strong()), status);
    frame.render_widget(Paragraph::new(filter_line(app)), filter);
    draw_history(app, frame, history);
    frame.render_widget(Paragraph::new(tabs_line(app)), tabs);
    draw_table(app, frame, table);
    frame.render_widget(Paragraph::new(last_line(app)), last);
    match &app.mode {
        Mode::Help => draw_box(frame, " keys ", HELP),
        Mode::Filter(_, Some(wrong)) => draw_box(frame, " the filter ", wrong.trim_end()),
        Mode::Filter(text, None) => {
            let column = filter.x + PROMPT.len() as u16 + Span::raw(text.as_str()).width() as u16;
            frame.set_cursor_position((column.min(area.width.saturating_sub(1)), filter.y));
        }
        Mode::Tables => {}
    }
}

fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// One line about the run.
fn status_line<R: Requests>(app: &App<R>) -> String {
    let Rates { packets, bits } = app.history.latest();
    let source = &app.glance.source;
    let share = source.dropped() as f64 * 100.0 / source.received.max(1) as f64;
    let memory: u64 = app.glance.memory.iter().map(|(_, bytes, _)| bytes).sum();
    let card = match source.card_dropped {
        0 => String::new(),
        count => format!(", by the card {count}"),
    };
    let state = match (app.is_paused(), app.is_over) {
        (true, _) => "PAUSED  ",
        (_, true) => "END  ",
        _ => "",
    };
    format!(
        "{state}{}  {}pps  {}bit/s  lost {} ({share:.2} %){card}  flows {}  memory {}B",
        cut(&weir::packet::printable(&app.source, &[])),
        scaled(packets),
        scaled(bits),
        source.dropped(),
        app.glance.flows,
        scaled(memory as f64),
    )
}

/// The names of the captures, if they are not too long.
fn cut(names: &str) -> String {
    match names.chars().count() > SOURCE_MAX {
        true => names.chars().take(SOURCE_MAX - 1).chain(['…']).collect(),
        false => names.to_string(),
    }
}

const PROMPT: &str = "filter: ";

fn filter_line<R: Requests>(app: &App<R>) -> Line<'_> {
    match &app.mode {
        Mode::Filter(text, _) => Line::from(vec![Span::styled(PROMPT, strong()), Span::raw(text.as_str())]),
        _ if app.filter.is_empty() => Line::raw("filter: (all traffic)"),
        _ => Line::from(vec![Span::raw(PROMPT), Span::raw(app.filter.as_str())]),
    }
}

fn draw_history<R: Requests>(app: &App<R>, frame: &mut Frame<'_>, area: Rect) {
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas::<2>(area);
    let packets: fn(&Rates) -> f64 = |rates| rates.packets;
    let both = [("packets/s", packets, Color::Cyan), ("bit/s", |rates: &Rates| rates.bits, Color::Green)];
    for (half, (name, of, color)) in halves.into_iter().zip(both) {
        let values = app.history.last(usize::from(half.width), of);
        let largest = values.iter().max().copied().unwrap_or(0);
        let title = format!("{name}, at most {}", scaled(largest as f64));
        let style = if app.is_colored { Style::new().fg(color) } else { Style::new() };
        let line = Sparkline::default().data(&values).style(style).block(Block::new().title(title));
        frame.render_widget(line, half);
    }
}

fn tabs_line<R: Requests>(app: &App<R>) -> Line<'static> {
    let tab = |(index, pane): (usize, Pane)| {
        let style = if pane == app.pane { reversed() } else { Style::new() };
        [Span::styled(format!(" {} {} ", index + 1, pane.title()), style), Span::raw(" ")]
    };
    Line::from_iter(Pane::ALL.into_iter().enumerate().flat_map(tab))
}

fn draw_table<R: Requests>(app: &App<R>, frame: &mut Frame<'_>, area: Rect) {
    let Some(sheet) = &app.sheet else { return };
    let (columns, sort) = (fitting(app.pane.columns(), area.width), app.sort());
    let heading = |(index, column): (usize, &Column)| {
        let mark = match (index == sort.column, sort.is_descending) {
            (false, _) => "",
            (true, true) => "↓",
            (true, false) => "↑",
        };
        let style = if index == sort.column { strong().add_modifier(Modifier::UNDERLINED) } else { strong() };
        Cell::new(aligned(column, format!("{}{mark}", column.name))).style(style)
    };
    let header = Row::new(columns.iter().enumerate().map(heading));
    let rows = sheet.rows.iter().enumerate().map(|(index, (_, cells))| {
        let cells = columns.iter().zip(cells).map(|(column, cell)| Cell::new(aligned(column, cell.text())));
        let is_selected = sheet.first + index == sheet.selected;
        Row::new(cells).style(if is_selected { reversed() } else { Style::new() })
    });
    let widths = columns.iter().map(|column| match column.grows {
        true => Constraint::Min(column.width),
        false => Constraint::Length(column.width),
    });
    frame.render_widget(Table::new(rows, widths).header(header), area);
}

fn aligned(column: &Column, text: String) -> Line<'static> {
    let line = Line::raw(text);
    if column.is_right { line.right_aligned() } else { line }
}

fn last_line<R: Requests>(app: &App<R>) -> Line<'static> {
    if let Some(message) = app.message(Instant::now()) {
        let first = message.lines().next().unwrap_or_default();
        return Line::raw(weir::packet::printable(first, &[]).into_owned());
    }
    let sheet = app.sheet.as_ref();
    let place = sheet.map(|sheet| format!("{}/{}", sheet.total.min(sheet.selected + 1), sheet.total));
    let unlisted = match app.unlisted {
        0 => String::new(),
        count => format!(" ({count} not listed)"),
    };
    let recording = app.recording.as_ref().map(|recording| format!("REC {}  ", recording.file));
    let keys = "/ filter  s sort  r reverse  p pause  w record  ? help  q quit";
    Line::raw(format!("{}{}{unlisted}  {keys}", recording.unwrap_or_default(), place.unwrap_or_default()))
}

/// A box with text over the screen.
fn draw_box(frame: &mut Frame<'_>, title: &str, text: &str) {
    let area = frame.area();
    let lines = text.lines().count() as u16;
    let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0) as u16;
    let (width, height) = ((width + 2).min(area.width), (lines + 2).min(area.height));
    let top = 2.min(area.height.saturating_sub(height));
    let place = Rect { x: (area.width - width) / 2, y: area.y + top, width, height };
    frame.render_widget(Clear, place);
    // The text may repeat the filter, which somebody typed.
    let lines: Vec<Line<'_>> =
        text.lines().map(|line| Line::raw(weir::packet::printable(line, &[]))).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::app::Key;
    use crate::top::app::tests::{Obedient, app};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::path::Path;
    use std::time::Duration;

    fn shown(app: &mut App<Obedient>, width: u16, height: u16) -> String {
        app.refresh(Instant::now(), table_lines(height));
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it is no terminal");
        terminal.draw(|frame| draw(app, frame)).expect("it is no terminal");
        let buffer = terminal.backend().buffer().clone();
        let line = |row: u16| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        (0..height).map(|row| line(row).trim_end().to_string() + "\n").collect()
    }

    /// The screens are files; `WEIR_BLESS=1` writes them.
    #[test]
    fn screens_look_as_people_saw_them() {
        let (mut app, _) = app();
        let begin = Instant::now();
        for second in 0..40u64 {
            let mut glance = weir::Glance::default();
            glance.counters.packet.packets = second * second * 10;
            glance.counters.packet.wire_bytes = second * 1_000_000;
            app.history.sample(begin + Duration::from_secs(second), &glance);
        }
        let mut screens = String::new();
        let mut add = |name: &str, screen: String| screens += &format!("── {name}\n{screen}");
        for (pane, digit) in Pane::ALL.into_iter().zip('1'..) {
            app.press(Key::Char(digit));
            add(pane.title(), shown(&mut app, 80, 24));
        }
        app.press(Key::Char('1'));
        add("wide", shown(&mut app, 130, 20));
        add("small", shown(&mut app, 40, 10));
        app.press(Key::Char('?'));
        add("help", shown(&mut app, 80, 24));
        app.press(Key::Escape);
        for char in "/tls.sny".chars() {
            app.press(Key::Char(char));
        }
        app.press(Key::Enter);
        add("mistake", shown(&mut app, 80, 24));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/everyday/top.txt");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, &screens).expect("room");
        }
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == screens,
            "WEIR_BLESS=1 writes this:\n{screens}"
        );
    }

    #[test]
    fn every_size_of_a_terminal_is_drawn() {
        let (mut app, _) = app();
        for width in [0, 1, 2, 20, 79, 300] {
            for height in [0, 1, 3, 8, 15, 16, 60] {
                for key in [Key::Char('?'), Key::Char('/'), Key::Char('x'), Key::Enter, Key::Escape, Key::Tab]
                {
                    app.press(key);
                    if width > 0 && height > 0 {
                        shown(&mut app, width, height);
                    }
                }
            }
        }
    }
}
