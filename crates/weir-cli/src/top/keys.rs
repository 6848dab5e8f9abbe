//! Keys of the terminal.

use super::app::Key;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io;
use std::time::Duration;

/// Keys that are taken before the screen is drawn again, as when a text is pasted.
const KEYS_MAX: usize = 4096;

/// Waits for a key, or a new size of the terminal, and returns all keys that were pressed. None after `limit`.
///
/// # Errors
/// Those of the terminal.
pub fn wait(limit: Duration) -> io::Result<Vec<Key>> {
    let mut keys = vec![];
    let mut patience = limit;
    while keys.len() < KEYS_MAX && event::poll(patience)? {
        keys.extend(key_of(&event::read()?));
        patience = Duration::ZERO;
    }
    Ok(keys)
}

fn key_of(event: &Event) -> Option<Key> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if has_control => Key::Interrupt,
        KeyCode::Char('u') if has_control => Key::Clear,
        KeyCode::Char(_) if has_control => return None,
        KeyCode::Char(char) => Key::Char(char),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}
