//! Generates expressions with all operators, with the necessary parentheses and sometimes redundant ones.

use super::Author;
use super::names::Place;

/// The precedence of operators, as defined at the head of `weir-lang/src/syntax/expr.rs`.
const ARITHMETIC: [(&str, u8); 10] =
    [("+", 9), ("-", 9), ("*", 10), ("/", 10), ("%", 10), ("&", 7), ("|", 5), ("^", 6), ("<<", 8), (">>", 8)];
const COMPARE: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const POWER_COMPARE: u8 = 4;
const POWER_NOT: u8 = 3;
const POWER_ATOM: u8 = 11;

/// An expression, and the precedence of its outermost operator.
pub(super) struct Written(String, u8);

impl Author<'_, '_> {
    /// A numeric expression with at most `depth` nested operators.
    pub(super) fn number(&mut self, place: Place, depth: u32) -> String {
        self.expr(place, depth).0
    }

    /// The same, in parentheses if necessary for an operator of the highest precedence that may follow.
    pub(super) fn operand(&mut self, place: Place, depth: u32) -> String {
        let written = self.expr(place, depth);
        self.inside(written, POWER_ATOM)
    }

    /// A condition, mostly one that holds for some packets and not for others.
    pub(super) fn condition(&mut self, place: Place) -> String {
        match self.choices.below(8) {
            0..4 => self.simple_condition(place),
            4 => format!("{} and {}", self.simple_condition(place), self.simple_condition(place)),
            5 => format!("{} or {}", self.simple_condition(place), self.simple_condition(place)),
            _ => self.number(place, 3),
        }
    }

    fn simple_condition(&mut self, place: Place) -> String {
        let name = self.name(place);
        let small = self.choices.below(4);
        match self.choices.below(6) {
            0 => format!("{name} & 1 == {}", small & 1),
            1 => format!("{name} != {small}"),
            2 => format!("{name} < {}", small + 2),
            3 => format!("{name} in {{ {small}, {}..{} }}", small + 2, small + 3),
            4 => format!("{name} == {}", self.choices.number()),
            _ => format!("not {name} & 2 != 0"),
        }
    }

    fn name(&mut self, place: Place) -> String {
        let names = self.names.numbers(place);
        if names.is_empty() { self.literal() } else { self.choices.pick(&names) }
    }

    fn literal(&mut self) -> String {
        let number = self.choices.number();
        match self.choices.below(12) {
            10 => format!("{number:#x}"),
            11 => self.choices.pick(&["true", "false"]).to_string(),
            _ => number.to_string(),
        }
    }

    fn expr(&mut self, place: Place, depth: u32) -> Written {
        if depth == 0 {
            let atom = if self.choices.chance(30) { self.literal() } else { self.name(place) };
            return Written(atom, POWER_ATOM);
        }
        match self.choices.below(18) {
            17 if !matches!(place, Place::Function | Place::Header) => {
                let [offset, length] = [(); 2].map(|()| self.number(place, depth - 1));
                Written(format!("items_fit({offset}, ({length}) & 63)"), POWER_ATOM)
            }
            16 if !matches!(place, Place::Function | Place::Header) => {
                let [offset, length, first] = [(); 3].map(|()| self.number(place, depth - 1));
                Written(format!("sum16({offset}, ({length}) & 63, {first})"), POWER_ATOM)
            }
            16 | 17 => Written(self.literal(), POWER_ATOM),
            0..3 => self.expr(place, 0),
            3..8 => {
                let (op, power) = self.choices.pick(&ARITHMETIC);
                self.binary(place, depth, op, power)
            }
            8..10 => {
                let op = self.choices.pick(&COMPARE);
                let [a, b] = self.two(place, depth);
                Written(format!("{} {op} {}", self.above(a), self.above(b)), POWER_COMPARE)
            }
            10 => self.binary(place, depth, "or", 1),
            11 => self.binary(place, depth, "and", 2),
            12 => {
                let inner = self.expr(place, depth - 1);
                Written(format!("not {}", self.inside(inner, POWER_NOT + 1)), POWER_NOT)
            }
            13 => {
                let inner = self.expr(place, depth - 1);
                let inner = self.above(inner);
                Written(format!("{inner} in {{ {} }}", self.ranges()), POWER_COMPARE)
            }
            14 => {
                let condition = self.number(place, depth - 1);
                let [a, b] = self.two(place, depth);
                Written(format!("if {condition} then {} else {}", a.0, b.0), 0)
            }
            _ => Written(self.named(place, depth), POWER_ATOM),
        }
    }

    fn two(&mut self, place: Place, depth: u32) -> [Written; 2] {
        [self.expr(place, depth - 1), self.expr(place, depth - 1)]
    }

    /// A binary expression; operators of equal precedence associate to the left.
    fn binary(&mut self, place: Place, depth: u32, op: &str, power: u8) -> Written {
        let [a, b] = self.two(place, depth);
        let (a, b) = (self.inside(a, power), self.inside(b, power + 1));
        Written(format!("{a} {op} {b}"), power)
    }

    /// An operand of a comparison, in parentheses if it is a comparison itself: comparisons cannot be
    /// chained.
    fn above(&mut self, written: Written) -> String {
        self.inside(written, POWER_COMPARE + 1)
    }

    fn inside(&mut self, Written(text, power): Written, least: u8) -> String {
        if power < least || self.choices.chance(5) { format!("({text})") } else { text }
    }

    /// `1, 4..6`: numbers and ranges in any order.
    pub(super) fn ranges(&mut self) -> String {
        let count = 1 + self.choices.below(3);
        let ranges: Vec<String> = (0..count)
            .map(|_| {
                let (a, b) = (self.choices.number(), self.choices.number());
                if self.choices.chance(40) { format!("{}..{}", a.min(b), a.max(b)) } else { a.to_string() }
            })
            .collect();
        ranges.join(", ")
    }

    /// A call of a function, or a lookup in a table.
    fn named(&mut self, place: Place, depth: u32) -> String {
        let (functions, tables) = (self.names.functions.len(), self.names.tables.len());
        if functions + tables == 0 {
            return self.name(place);
        }
        let at = self.choices.below(functions + tables);
        if at >= functions {
            // The index of a table is copied into each of its rows, so the nesting of tables is limited.
            let inner = self.number(place, depth.min(2) - 1);
            return format!("{}[{inner}]", self.names.tables[at - functions]);
        }
        let (name, params) = self.names.functions[at].clone();
        let args: Vec<String> = (0..params).map(|_| self.number(place, depth.min(2) - 1)).collect();
        format!("{name}({})", args.join(", "))
    }
}
