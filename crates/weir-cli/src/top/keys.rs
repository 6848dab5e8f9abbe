//! Keys of the terminal.

use super::app::Key;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::Duration;

/// Keys that are taken before the screen is drawn again, as when a text is pasted.
const KEYS_MAX: usize = 4096;

/// The terminal that keys come from: standard input, unless that is a capture.
pub struct Keys(File);

impl Keys {
    /// Opens the terminal.
    ///
    /// # Errors
    /// The process has no terminal.
    pub fn open() -> io::Result<Self> {
        let input = io::stdin();
        let terminal = if input.is_terminal() {
            File::from(input.as_fd().try_clone_to_owned()?)
        } else {
            File::open("/dev/tty")?
        };
        Ok(Self(terminal))
    }

    /// Waits for a key, or a new size of the terminal, for at most `limit`, and returns all keys that were
    /// pressed.
    ///
    /// # Errors
    /// Those of the terminal, also that it is gone.
    pub fn wait(&self, limit: Duration) -> io::Result<Vec<Key>> {
        // If the terminal is gone, crossterm (0.29) would read its end again and again, and not return.
        let mut waiting = [PollFd::new(&self.0, PollFlags::IN)];
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        match rustix::event::poll(&mut waiting, Some(&limit)) {
            // A signal: the terminal may have another size.
            Err(Errno::INTR) => return Ok(vec![]),
            polled => polled?,
        };
        if waiting[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut keys = vec![];
        while keys.len() < KEYS_MAX && event::poll(Duration::ZERO)? {
            keys.extend(key_of(&event::read()?));
        }
        Ok(keys)
    }
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
