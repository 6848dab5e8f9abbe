//! A sorted table of which a part is shown. Values are turned into text only where they are shown.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// Characters that the column needs.
    pub width: u16,
    /// Whether the values are at the right edge.
    pub is_right: bool,
    /// Whether the column takes more characters if there are more.
    pub grows: bool,
}

/// As many columns as fit into a line of this width, the first one in any case. Between two columns is a blank.
pub fn fitting(columns: &[Column], width: u16) -> &[Column] {
    let mut used = 0;
    let fits = |column: &&Column| {
        used += column.width + 1;
        used <= width + 1
    };
    let count = columns.iter().take_while(fits).count();
    &columns[..count.max(1)]
}

/// A value, with its unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Text(String),
    Number(u64),
    Bytes(u64),
    BitsPerSecond(f64),
    Seconds(f64),
}

impl Cell {
    /// The text of the value. Texts of the traffic have no control characters any more.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => weir::packet::printable(text, &[]).into_owned(),
            Self::Number(number) => number.to_string(),
            Self::Bytes(bytes) => format!("{}B", scaled(*bytes as f64)),
            Self::BitsPerSecond(rate) if *rate < 0.5 => "-".to_string(),
            Self::BitsPerSecond(rate) => scaled(*rate),
            Self::Seconds(seconds) => format!("{seconds:.1}"),
        }
    }

    fn number(&self) -> f64 {
        match self {
            Self::Text(_) => 0.0,
            Self::Number(number) | Self::Bytes(number) => *number as f64,
            Self::BitsPerSecond(number) | Self::Seconds(number) => *number,
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            _ => self.number().total_cmp(&other.number()),
        }
    }
}

/// A number with three digits, and its unit's prefix.
pub fn scaled(number: f64) -> String {
    crate::monitor::scaled(number)
}

/// How a table is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    /// The number of the column.
    pub column: usize,
    /// The largest first.
    pub is_descending: bool,
}

/// A part of a sorted table.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// Identifier and values of each row.
    pub rows: Vec<(String, Vec<Cell>)>,
    /// The position of the first row in the table.
    pub first: usize,
    /// The position of the selected row in the table.
    pub selected: usize,
    /// Rows of the table.
    pub total: usize,
}

/// The selected row: by identifier if it is still there, else by position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    pub id: Option<String>,
    pub position: usize,
}

impl Sheet {
    /// The part of the items that fits into `height` lines and shows the selected row.
    pub fn of<T>(
        items: Vec<T>,
        (columns, sort): (usize, Sort),
        cell: impl Fn(&T, usize) -> Cell,
        id: impl Fn(&T) -> Cow<'_, str>,
        (selection, height): (&Selection, usize),
    ) -> Self {
        let mut keyed: Vec<(Cell, T)> =
            items.into_iter().map(|item| (cell(&item, sort.column), item)).collect();
        keyed.sort_unstable_by(|(one, of_one), (other, of_other)| {
            let order = if sort.is_descending { other.order(one) } else { one.order(other) };
            order.then_with(|| id(of_one).cmp(&id(of_other)))
        });
        let place =
            selection.id.as_ref().and_then(|wanted| keyed.iter().position(|(_, item)| id(item) == *wanted));
        let last = keyed.len().saturating_sub(1);
        let selected = place.unwrap_or(selection.position).min(last);
        let shown = window(selected, keyed.len(), height);
        let rows = keyed[shown.clone()]
            .iter()
            .map(|(_, item)| (id(item).into_owned(), (0..columns).map(|column| cell(item, column)).collect()))
            .collect();
        Self { rows, first: shown.start, selected, total: keyed.len() }
    }

    /// The identifier of the selected row.
    pub fn selected_id(&self) -> Option<&str> {
        self.rows.get(self.selected - self.first).map(|(id, _)| id.as_str())
    }
}

/// The rows that are shown: the page with the selected row.
fn window(selected: usize, total: usize, height: usize) -> Range<usize> {
    let first = (selected / height.max(1)) * height.max(1);
    first..total.min(first + height)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(selection: &Selection) -> Sheet {
        let cell = |item: &u64, column: usize| match column {
            0 => Cell::Text(format!("item {}", 9 - item)),
            _ => Cell::Number(*item),
        };
        let sort = Sort { column: 1, is_descending: true };
        Sheet::of((0..10).collect(), (2, sort), cell, |item| item.to_string().into(), (selection, 4))
    }

    #[test]
    fn the_page_of_the_selected_row_is_shown() {
        let first = sheet(&Selection::default());
        assert_eq!((first.first, first.selected, first.total, first.rows.len()), (0, 0, 10, 4));
        assert_eq!(first.rows[0], ("9".to_string(), vec![Cell::Text("item 0".into()), Cell::Number(9)]));
        let last = sheet(&Selection { id: Some("1".into()), position: 0 });
        assert_eq!((last.first, last.selected, last.rows.len()), (8, 8, 2));
        assert_eq!(last.selected_id(), Some("1"));
        let gone = sheet(&Selection { id: Some("x".into()), position: 99 });
        assert_eq!(gone.selected_id(), Some("0"));
    }

    #[test]
    fn texts_of_the_traffic_do_not_control_the_terminal() {
        let text = Cell::Text("a\x1b[2J\u{202e}b".into()).text();
        assert!(!text.contains(['\x1b', '\u{202e}']), "{text}");
    }
}
