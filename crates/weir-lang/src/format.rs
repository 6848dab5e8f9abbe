//! The layout of `.weir` texts, as written by `weir fmt`.
//!
//! The formatter uses tokens, comments and the starts of items ([`Outline`]), and does not know individual
//! clauses. It changes only white space. Lines are neither broken nor joined. The rules for white space are:
//!
//! * A line is indented four spaces deeper than the line of its enclosing opening bracket. A continuation
//!   line of an item is indented at least four spaces deeper than the item; deeper indentation by the author
//!   is kept.
//! * Two tokens are separated by one space or none, according to [`space`].
//! * Two or more spaces are kept before an item, before a comment, between two words (`done   5m otherwise`),
//!   and before a piece that is in one column with a piece of another line of equal indentation. Lines
//!   separated by a blank line share no columns.
//! * Pieces that are in one column stay in one column, even if other spaces of their lines change.
//! * Of consecutive blank lines, one is kept. Blank lines next to a brace, and at the start and end of the
//!   text, are removed.
//!
//! Formatting is idempotent: the spaces of a formatted text follow these rules or form columns.

use crate::diag::{Diagnostic, Diagnostics, Sources};
use crate::library;
use crate::syntax::lexer::TokenKind;
use crate::syntax::{Outline, outline};
use std::iter;
use std::mem::{Discriminant, discriminant};

const INDENT: usize = 4;

/// Formats a text: the same tokens and comments, with the project's white space. `name` is the text's name in
/// diagnostics.
///
/// # Errors
/// Every syntax error: a text that cannot be parsed cannot be formatted. Names need not resolve.
pub fn format(name: &str, text: &str) -> Result<String, Diagnostics> {
    let mut sources = Sources::new();
    if let Some(too_long) = library::too_long(name, text) {
        return Err(Diagnostics { sources, list: vec![too_long] });
    }
    let source = sources.add(name, text);
    let mut list = Vec::new();
    let outline = outline(text, source, &mut list);
    if list.iter().any(Diagnostic::is_error) {
        return Err(Diagnostics { sources, list: library::relevant_diagnostics(list, source) });
    }
    let mut lines = Reading::lines_of(text, &outline);
    settle_blank_lines(&mut lines);
    indent(&mut lines);
    for paragraph in lines.chunk_by_mut(|_, below| !below.blank_above) {
        align(paragraph);
    }
    Ok(written(&lines))
}

/// A token or a comment.
struct Piece<'a> {
    text: &'a str,
    /// The token's kind; `None` for a comment.
    kind: Option<TokenKind>,
    starts_item: bool,
    /// An opening brace of a block of items, not of a list.
    opens_block: bool,
    /// Characters before the piece on its line, in the input.
    column_read: usize,
    /// Characters before the piece on its line, in the output.
    column: usize,
}

impl Piece<'_> {
    fn width(&self) -> usize {
        self.text.chars().count()
    }

    fn end_read(&self) -> usize {
        self.column_read + self.width()
    }

    fn end(&self) -> usize {
        self.column + self.width()
    }

    fn opens(&self) -> bool {
        matches!(self.kind, Some(TokenKind::BraceOpen | TokenKind::ParenOpen | TokenKind::BracketOpen))
    }

    fn closes(&self) -> bool {
        matches!(self.kind, Some(TokenKind::BraceClose | TokenKind::ParenClose | TokenKind::BracketClose))
    }

    fn sort(&self) -> Sort {
        (self.kind.as_ref().map(discriminant), self.starts_item)
    }
}

/// The kind of pieces that can form a column.
type Sort = (Option<Discriminant<TokenKind>>, bool);

/// A line that is not blank.
struct Line<'a> {
    blank_above: bool,
    /// The comment continues the trailing comment of the line above, in the same column.
    goes_on: bool,
    /// The pieces of the line, at least one.
    pieces: Vec<Piece<'a>>,
}

/// Splits a text into lines.
struct Reading<'a> {
    lines: Vec<Line<'a>>,
    /// Line breaks since the last piece.
    breaks: usize,
    column: usize,
}

impl<'a> Reading<'a> {
    fn lines_of(text: &'a str, outline: &Outline) -> Vec<Line<'a>> {
        let mut reading = Self { lines: Vec::new(), breaks: 1, column: 0 };
        let mut item_starts = outline.item_starts.iter().copied().peekable();
        let mut at = 0;
        for (index, token) in outline.tokens.iter().enumerate() {
            let (start, end) = (token.span.start as usize, token.span.end as usize);
            reading.pass(&text[at..start]);
            at = end;
            let starts_item = item_starts.next_if_eq(&index).is_some();
            let after = outline.tokens.get(index + 1).map(|after| after.kind);
            let opens_block = token.kind == TokenKind::BraceOpen
                && (item_starts.peek() == Some(&(index + 1)) || after == Some(TokenKind::BraceClose));
            if token.kind != TokenKind::End {
                reading.push(&text[start..end], Some(token.kind), starts_item, opens_block);
            }
        }
        reading.lines
    }

    /// Processes the white space and comments between two tokens.
    fn pass(&mut self, between: &'a str) {
        let mut rest = between;
        while let Some(first) = rest.chars().next() {
            let mut length = first.len_utf8();
            match first {
                '/' => {
                    length = rest.find('\n').unwrap_or(rest.len());
                    self.push(rest[..length].trim_end(), None, false, false);
                }
                '\n' => (self.breaks, self.column) = (self.breaks + 1, 0),
                '\t' => self.column += INDENT - self.column % INDENT,
                _ => self.column += 1,
            }
            rest = &rest[length..];
        }
    }

    fn push(&mut self, text: &'a str, kind: Option<TokenKind>, starts_item: bool, opens_block: bool) {
        let piece = Piece { text, kind, starts_item, opens_block, column_read: self.column, column: 0 };
        self.column = piece.end_read();
        let breaks = std::mem::take(&mut self.breaks);
        match self.lines.last_mut() {
            Some(line) if breaks == 0 => line.pieces.push(piece),
            above => {
                let goes_on = piece.kind.is_none()
                    && breaks == 1
                    && above.is_some_and(|above| above.goes_on || above.pieces.len() > 1)
                    && above_comment(&self.lines).is_some_and(|c| c.column_read == piece.column_read);
                self.lines.push(Line { blank_above: breaks > 1, goes_on, pieces: vec![piece] });
            }
        }
    }
}

/// The trailing comment of the last of these lines.
fn above_comment<'l, 'a>(lines: &'l [Line<'a>]) -> Option<&'l Piece<'a>> {
    lines.last()?.pieces.last().filter(|piece| piece.kind.is_none())
}

/// Removes blank lines where they are not allowed.
fn settle_blank_lines(lines: &mut [Line<'_>]) {
    let mut is_start = true;
    for line in lines {
        line.blank_above &= !is_start && !line.pieces[0].closes();
        is_start = line.pieces.last().is_some_and(Piece::opens);
    }
}

/// The contents of a bracket, or the whole text.
struct Level {
    /// Indentation of the line with the closing bracket.
    around: usize,
    /// Indentation of the lines inside.
    inside: usize,
    /// The bracket contains items.
    is_block: bool,
    /// Indentation of the line on which the last item began.
    item: usize,
    /// The same indentation in the input.
    item_read: usize,
}

impl Level {
    fn new(around: usize, inside: usize, is_block: bool) -> Self {
        Self { around, inside, is_block, item: around, item_read: 0 }
    }
}

/// Sets the indentation of all lines.
fn indent(lines: &mut [Line<'_>]) {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::new(0, 0, true);
    let mut after_block = false;
    for line in lines {
        let column = beginning(line, &outer, &level, after_block);
        let column_read = line.pieces[0].column_read;
        line.pieces[0].column = column;
        for piece in &line.pieces {
            if piece.starts_item {
                (level.item, level.item_read) = (column, column_read);
            }
            if piece.opens() {
                let around = if piece.opens_block { level.item } else { column };
                let inner = Level::new(around, around + INDENT, piece.opens_block);
                outer.push(std::mem::replace(&mut level, inner));
            } else if piece.closes() {
                level = outer.pop().unwrap_or(level);
            }
            if piece.kind.is_some() {
                after_block = piece.kind == Some(TokenKind::BraceClose);
            }
        }
    }
}

/// The indentation of a line inside `level`.
fn beginning(line: &Line<'_>, outer: &[Level], level: &Level, after_block: bool) -> usize {
    let closed = line.pieces.iter().take_while(|piece| piece.closes()).count();
    // Indented like the outermost bracket that the line closes.
    if let Some(last) = iter::once(level).chain(outer.iter().rev()).take(closed).last() {
        return last.around;
    }
    let first = &line.pieces[0];
    let is_part = level.is_block
        && !first.starts_item
        && !first.opens_block
        && first.kind.is_some_and(|kind| !(after_block && kind == TokenKind::Else));
    if !is_part {
        return level.inside;
    }
    level.item + first.column_read.saturating_sub(level.item_read).max(INDENT)
}

/// Sets the columns of the other pieces in a paragraph's lines.
fn align(lines: &mut [Line<'_>]) {
    let mut ends: Vec<usize> = lines.iter().map(|line| line.pieces[0].end()).collect();
    let cells = lines.iter().enumerate().flat_map(|(number, line)| {
        (1..line.pieces.len()).map(move |at| {
            let piece = &line.pieces[at];
            // Comments share a column independent of the indentation of their lines.
            let indent = if piece.kind.is_none() { 0 } else { line.pieces[0].column };
            // The column after indentation of the line: a line that is not indented yet must not share a
            // column by chance.
            let column_read = piece.column_read - line.pieces[0].column_read + line.pieces[0].column;
            Cell { column_read, indent, line: number, at }
        })
    });
    let mut cells: Vec<Cell> = cells.collect();
    // From left to right: the pieces before a piece are placed first.
    cells.sort_unstable();
    for in_column in cells.chunk_by(|a, b| (a.column_read, a.indent) == (b.column_read, b.indent)) {
        let column = Column::of(lines, in_column, &ends);
        for cell in in_column {
            let pieces = &mut lines[cell.line].pieces;
            pieces[cell.at].column = column.place(pieces, cell.at, ends[cell.line]);
            ends[cell.line] = pieces[cell.at].end();
        }
    }
    for number in 1..lines.len() {
        if lines[number].goes_on
            && let Some(column) = above_comment(&lines[..number]).map(|above| above.column)
        {
            lines[number].pieces[0].column = column;
        }
    }
}

/// The position of a piece that is not the first of its line, ordered by placement.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    column_read: usize,
    /// Only lines of equal indentation share columns.
    indent: usize,
    line: usize,
    at: usize,
}

/// Pieces that the author aligned in one column.
struct Column {
    /// The kinds of the pieces that follow two or more spaces.
    sorts: Vec<Sort>,
    /// The column in the output; `None` if it consists of one piece.
    at: Option<usize>,
}

impl Column {
    /// The column of the pieces that share a column in the input. `ends`: the ends of the preceding pieces on
    /// their lines.
    fn of(lines: &[Line<'_>], cells: &[Cell], ends: &[usize]) -> Self {
        let mut column = Self { sorts: Vec::new(), at: None };
        for cell in cells {
            let pieces = &lines[cell.line].pieces;
            let sort = pieces[cell.at].sort();
            if gap_read(pieces, cell.at) > 1 && space(pieces, cell.at) > 0 && !column.sorts.contains(&sort) {
                column.sorts.push(sort);
            }
        }
        let members = cells.iter().filter(|cell| column.has(&lines[cell.line].pieces, cell.at));
        let starts = members.map(|cell| ends[cell.line] + gap_read(&lines[cell.line].pieces, cell.at).max(1));
        let (count, start) = starts.fold((0, 0), |(count, most), start| (count + 1, most.max(start)));
        column.at = (count > 1).then_some(start);
        column
    }

    fn has(&self, pieces: &[Piece<'_>], at: usize) -> bool {
        space(pieces, at) > 0 && gap_read(pieces, at) > 0 && self.sorts.contains(&pieces[at].sort())
    }

    /// The output column of a piece whose preceding piece ends at `end`.
    fn place(&self, pieces: &[Piece<'_>], at: usize, end: usize) -> usize {
        match self.at {
            Some(column) if self.has(pieces, at) => column,
            _ if parts(pieces, at) => end + gap_read(pieces, at).max(1),
            _ => end + space(pieces, at),
        }
    }
}

/// Characters between a piece and the preceding one, in the input.
fn gap_read(pieces: &[Piece<'_>], at: usize) -> usize {
    pieces[at].column_read.saturating_sub(pieces[at - 1].end_read())
}

/// Whether several spaces before a piece are kept: before an item, a comment, or a word after another word
/// (`… done   5m otherwise`), but not after the word that introduces the item.
fn parts(pieces: &[Piece<'_>], at: usize) -> bool {
    use TokenKind as T;
    let (before, piece) = (&pieces[at - 1], &pieces[at]);
    let is_word = matches!(piece.kind, Some(T::Name | T::Number(_) | T::Duration(_)));
    let behind_word = matches!(before.kind, Some(T::Name | T::Number(_) | T::Duration(_))) || before.closes();
    piece.starts_item || piece.kind.is_none() || is_word && behind_word && !before.starts_item
}

/// Words before a parenthesis that is not a call.
const BEFORE_PARENTHESES: [&str; 7] = ["instance", "when", "at", "spanning", "window", "wholes", "until"];

/// Spaces between a piece and the preceding one, unless a column requires more.
fn space(pieces: &[Piece<'_>], at: usize) -> usize {
    use TokenKind as T;
    let before = &pieces[at - 1];
    let (Some(left), Some(right)) = (before.kind, pieces[at].kind) else { return 1 };
    let is_number = |at: usize| pieces.get(at).is_some_and(|piece| matches!(piece.kind, Some(T::Number(_))));
    match (left, right) {
        (T::ParenOpen | T::BracketOpen, _) | (T::BraceOpen, T::BraceClose) => 0,
        (_, T::ParenClose | T::BracketClose | T::Comma | T::Colon) => 0,
        (T::Name | T::ParenClose | T::BracketClose, T::BracketOpen) => 0,
        (_, T::DotDot) => usize::from(!(is_number(at - 1) && is_number(at + 1))),
        (T::DotDot, _) => usize::from(!(at > 1 && is_number(at - 2) && is_number(at))),
        // Only the clause determines whether a name before a parenthesis is a call.
        (T::Name, T::ParenOpen) if !BEFORE_PARENTHESES.contains(&before.text) => gap_read(pieces, at).min(1),
        _ => 1,
    }
}

fn written(lines: &[Line<'_>]) -> String {
    let mut text = String::new();
    for line in lines {
        if line.blank_above {
            text.push('\n');
        }
        let mut column = 0;
        for piece in &line.pieces {
            text.extend(iter::repeat_n(' ', piece.column.saturating_sub(column)));
            text.push_str(piece.text);
            column = piece.end();
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = super::format("x.weir", text).expect("a text that can be read");
        assert_eq!(found, expected, "found:\n{found}");
        assert_eq!(super::format("x.weir", &found).expect("it is laid out"), found);
    }

    #[test]
    fn lines_stand_as_deep_as_they_are_nested() {
        check(
            "\
protocol x{
header{
      a:u8
\tif a==1{
b:u8 }
  else{ c:u8
}
} payload=rest }
stack x { mpls {
-> ip
} }
",
            "\
protocol x {
    header {
        a: u8
        if a == 1 {
            b: u8 }
        else { c: u8
        }
    } payload = rest }
stack x { mpls {
    -> ip
} }
",
        );
    }

    #[test]
    fn signs_have_their_spaces() {
        check(
            r#"protocol x{header{a:u4=4 b:u4 where>=5 c:bytes[ b*4-( a+1 ) ]"c"}
let d=a in{1 , 3 .. 5}or not(b&1==1)
instance( a,b )<->(b ,a)
on e:any->f when  (a == 1)
payload=rest[..a]}
"#,
            r#"protocol x { header { a: u4 = 4 b: u4 where >= 5 c: bytes[b * 4 - (a + 1)] "c" }
    let d = a in { 1, 3..5 } or not (b & 1 == 1)
    instance (a, b) <-> (b, a)
    on e: any -> f when (a == 1)
    payload = rest[.. a] }
"#,
        );
    }

    #[test]
    fn what_goes_on_with_a_line_is_deeper_or_as_deep_as_it_was_written() {
        check(
            "\
stack x {
  a -> b
  when c == 1
  a -> d
       when c in {
    1,
    2
  }
}
",
            "\
stack x {
    a -> b
        when c == 1
    a -> d
         when c in {
             1,
             2
         }
}
",
        );
    }

    #[test]
    fn columns_stay_and_other_spaces_do_not() {
        check(
            "\
stack x {
    a ->  b     when c  ==  1
    aa,b -> c   when d == 2

    a  -> d   when e  in{ 3 }
}
",
            "\
stack x {
    a -> b       when c == 1
    aa, b -> c   when d == 2

    a -> d   when e in { 3 }
}
",
        );
    }

    #[test]
    fn comments_stay_with_what_they_are_about() {
        check(
            "

// file


//!   doc
stack x {

  a->b//why
  // of c
  b -> c    // one
            // two
  // of d

  c -> d   // three

}
",
            "\
// file

//!   doc
stack x {
    a -> b //why
    // of c
    b -> c    // one
              // two
    // of d

    c -> d   // three
}
",
        );
    }

    #[test]
    fn a_line_that_is_not_indented_shares_no_column_by_chance() {
        check(
            "\
protocol x {
    each side { state: u8   mult: u8   min_tx: u32   min_rx: u32 }
    states { down: start   init   up   off }
event down on fail, stop { said_by = below.src, diag } \"one side says Down or AdminDown\"
}
",
            "\
protocol x {
    each side { state: u8   mult: u8   min_tx: u32   min_rx: u32 }
    states { down: start   init   up   off }
    event down on fail, stop { said_by = below.src, diag } \"one side says Down or AdminDown\"
}
",
        );
    }
}
