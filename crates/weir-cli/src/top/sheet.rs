//! A sorted table of which a part is shown. The page is found by keys, which need no memory of their own;
//! values are turned into text only where they are shown, from copies of the rows of the page.

use std::cmp::Ordering;
use std::net::IpAddr;
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

/// As many columns as fit into a line of this width, the first one in any case. Between two columns is a
/// blank.
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
}

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Key<'a> {
    Number(f64),
    Text(&'a str),
    /// Two texts, one after the other.
    Texts(&'a str, &'a str),
    /// An address, and a port or number.
    End(Option<IpAddr>, u32),
}

impl Key<'_> {
    /// Compares keys of one column.
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Texts(..), Self::Texts(..)) => self.texts().cmp(&other.texts()),
            (Self::End(one, port), Self::End(other, other_port)) => (one, port).cmp(&(other, other_port)),
            _ => Ordering::Equal,
        }
    }

    fn texts(&self) -> [&str; 2] {
        match self {
            Self::Texts(one, other) => [one, other],
            _ => [""; 2],
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

/// The rows of a page, whose values are not formatted yet.
#[derive(Debug)]
pub struct Page<T> {
    rows: Vec<T>,
    first: usize,
    selected: usize,
    total: usize,
}

impl<T> Page<T> {
    /// The items that fit into `height` lines, with the selected row. `key`: what an item is sorted by; then
    /// by `rank`, which is different for each. `is_wanted`: whether an item has this identifier. Costs time
    /// in proportion to the number of items: only those of the page are sorted.
    pub fn of<'a>(
        items: impl Iterator<Item = T>,
        sort: Sort,
        key: impl Fn(&T) -> Key<'a>,
        rank: impl Fn(&T) -> Key<'a>,
        is_wanted: impl Fn(&T, &str) -> bool,
        (selection, height): (&Selection, usize),
    ) -> Self {
        let mut keyed: Vec<(Key<'a>, Key<'a>, T)> =
            items.map(|item| (key(&item), rank(&item), item)).collect();
        let order = |one: &(Key<'a>, Key<'a>, T), other: &(Key<'a>, Key<'a>, T)| {
            let order = if sort.is_descending { other.0.order(&one.0) } else { one.0.order(&other.0) };
            order.then_with(|| one.1.order(&other.1))
        };
        let wanted = selection.id.as_ref();
        let known = wanted.and_then(|wanted| keyed.iter().find(|(_, _, item)| is_wanted(item, wanted)));
        let place = known.map(|known| keyed.iter().filter(|one| order(one, known).is_lt()).count());
        let total = keyed.len();
        let selected = place.unwrap_or(selection.position).min(total.saturating_sub(1));
        let Range { start, end } = window(selected, total, height);
        if end < total {
            keyed.select_nth_unstable_by(end, order);
            keyed.truncate(end);
        }
        if start > 0 && start < end {
            keyed.select_nth_unstable_by(start, order);
        }
        let mut shown = keyed.split_off(start.min(keyed.len()));
        shown.sort_unstable_by(order);
        let rows = shown.into_iter().map(|(_, _, item)| item).collect();
        Self { rows, first: start, selected, total }
    }

    /// The same page with copies of its rows, which outlive the table.
    pub fn map<O>(self, copy: impl Fn(T) -> O) -> Page<O> {
        let Self { rows, first, selected, total } = self;
        Page { rows: rows.into_iter().map(copy).collect(), first, selected, total }
    }

    /// Formats the values of so many columns.
    pub fn sheet(self, columns: usize, cell: impl Fn(&T, usize) -> Cell, id: impl Fn(&T) -> String) -> Sheet {
        let Self { rows, first, selected, total } = self;
        let values = |item: &T| (0..columns).map(|column| cell(item, column)).collect();
        let rows = rows.iter().map(|item| (id(item), values(item))).collect();
        Sheet { rows, first, selected, total }
    }
}

impl Sheet {
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
        let key = |item: &u64| Key::Number(*item as f64);
        let is_wanted = |item: &u64, wanted: &str| item.to_string() == wanted;
        let page = Page::of((0..10).map(|n| n * 7 % 10), sort, key, key, is_wanted, (selection, 4));
        page.sheet(2, cell, u64::to_string)
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
        let middle = sheet(&Selection { id: Some("4".into()), position: 0 });
        let ids: Vec<&str> = middle.rows.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!((middle.first, middle.selected_id(), ids), (4, Some("4"), vec!["5", "4", "3", "2"]));
    }

    #[test]
    fn rows_with_equal_keys_keep_their_places() {
        let names = ["e", "b", "d", "a", "c"];
        let sort = Sort { column: 0, is_descending: true };
        let page = |selection: &Selection| {
            let key = |_: &&str| Key::Number(1.0);
            let rank = |name: &&'static str| Key::Text(name);
            let page = Page::of(names.into_iter(), sort, key, rank, |name, id| *name == id, (selection, 2));
            page.rows
        };
        assert_eq!(page(&Selection::default()), ["a", "b"]);
        assert_eq!(page(&Selection { id: Some("d".into()), position: 0 }), ["c", "d"]);
        assert_eq!(page(&Selection { id: None, position: 9 }), ["e"]);
    }

    #[test]
    fn texts_of_the_traffic_do_not_control_the_terminal() {
        let text = Cell::Text("a\x1b[2J\u{202e}b".into()).text();
        assert!(!text.contains(['\x1b', '\u{202e}']), "{text}");
    }
}
