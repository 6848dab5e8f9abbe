//! The meaning of an aggregate's names and numbers.

use super::tree::{ConditionText, Meant, MeasureText, Tree, Word, name_of};
use super::{
    ARGUMENTS, Aggregate, CLAUSE, Condition, End, Function, KEY, Key, Measure, NAME, Shorthand, Top,
    UNKNOWN_FUNCTION, WINDOW, Window,
};
use crate::diag::{Span, suggest};
use crate::filter::{Catalog, FieldInfo, Names, Report, codes, literal};
use weir_packet::ValueType;

/// Maximum number of measures, and of parts of a key.
const PARTS_MAX: usize = 64;
/// Maximum number of bounds of a histogram.
const BOUNDS_MAX: usize = 64;

/// The functions, with what they take.
const FUNCTIONS: &[(&str, &str)] = &[
    ("count", "`count()`, or `count(field)` for records that have the field"),
    ("sum", "`sum(field)`"),
    ("min", "`min(field)`"),
    ("max", "`max(field)`"),
    ("mean", "`mean(field)`"),
    ("rate", "`rate()` for records per second, `rate(field)` for the sum per second"),
    ("quantile", "`quantile(field, 0.95)`"),
    ("median", "`median(field)`"),
    ("distinct", "`distinct(field)`"),
    ("first", "`first(field)`"),
    ("last", "`last(field)`"),
    ("histogram", "`histogram(field)`, or with bounds: `histogram(field, 64, 512, 1500)`"),
];

/// Other names of functions.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("avg", "mean"),
    ("average", "mean"),
    ("percentile", "quantile"),
    ("minimum", "min"),
    ("maximum", "max"),
    ("total", "sum"),
    ("unique", "distinct"),
    ("count_distinct", "distinct"),
    ("cardinality", "distinct"),
    ("hll_unique", "distinct"),
    ("approx_count_distinct", "distinct"),
    ("p50", "median"),
    ("n", "count"),
];

pub fn resolve(
    tree: &Tree,
    catalog: &dyn Catalog,
    shorthands: &[Shorthand<'_>],
    report: &mut Report,
) -> Option<Aggregate> {
    let mut resolver = Resolver { names: Names::new(catalog), report, measures: vec![] };
    for measure in &tree.measures {
        let found = resolver.measure(measure, false);
        resolver.measures.extend(found);
    }
    let keys = resolver.keys(&tree.keys, shorthands);
    let window = resolver.window(tree);
    let having = tree.having.as_ref().and_then(|condition| resolver.condition(condition));
    let top = tree.top.as_ref().and_then(|(count, by)| resolver.top(count, by.as_ref()));
    resolver.check_names(tree, &keys);
    let measures = resolver.measures;
    (!measures.is_empty()).then_some(Aggregate { measures, keys, window, having, top })
}

pub fn resolve_keys(
    tree: &Tree,
    catalog: &dyn Catalog,
    shorthands: &[Shorthand<'_>],
    report: &mut Report,
) -> Vec<Key> {
    Resolver { names: Names::new(catalog), report, measures: vec![] }.keys(&tree.keys, shorthands)
}

struct Resolver<'a, 'r> {
    names: Names<'a>,
    report: &'r mut Report,
    measures: Vec<Measure>,
}

impl Resolver<'_, '_> {
    fn field(&mut self, word: &Word) -> Option<usize> {
        let found = self.names.lookup(&word.text);
        if found.is_none() {
            self.names.report_unknown(&word.text, word.span, self.report);
        }
        found
    }

    /// The number that a word stands for, among values of this type. Times and intervals are numbers of
    /// nanoseconds; without a unit, a number is one of seconds, as in filters.
    fn number(&mut self, word: &Word, of: ValueType) -> Option<f64> {
        let is_time = matches!(of, ValueType::Interval | ValueType::Time);
        let number = match literal::parse_number(&word.text) {
            Ok(number) => Some(number as f64),
            _ if is_fraction(word) => word.text.parse::<f64>().ok().filter(|number| number.is_finite()),
            _ => None,
        };
        let number = match (number, literal::parse_interval(&word.text)) {
            (Some(number), _) => Some(if is_time { number * SECOND_NS } else { number }),
            (None, Ok(ns)) if is_time => Some(ns as f64),
            (None, Ok(_)) => {
                let message = format!("`{}` is a time, and is compared with a number", word.text);
                self.report.error(codes::CONSTANT, word.span, message);
                return None;
            }
            (None, Err(_)) => None,
        };
        if number.is_none() {
            self.report.error(codes::CONSTANT, word.span, format!("`{}` is no number", word.text));
        }
        number
    }

    fn measure(&mut self, text: &MeasureText, is_hidden: bool) -> Option<Measure> {
        let name = text.function.text.to_ascii_lowercase();
        let Some((_, usage)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            self.unknown_function(&text.function);
            return None;
        };
        if self.measures.len() >= PARTS_MAX {
            let message = format!("an aggregate has at most {PARTS_MAX} measures");
            self.report.error(codes::LIMIT, text.span, message);
            return None;
        }
        let wrong = |report: &mut Report, span: Span, message: String| {
            report.error(ARGUMENTS, span, message).help = Some(format!("write {usage}"));
            None
        };
        let is_number = |word: &Word| word.text.starts_with(|first: char| first.is_ascii_digit());
        let (numbers, fields): (Vec<&Word>, Vec<&Word>) =
            text.arguments.iter().partition(|word| is_number(word));
        if let [_, second, ..] = fields[..] {
            return wrong(self.report, second.span, format!("`{name}` takes one field"));
        }
        let field = match fields.first() {
            Some(word) => Some((*word, self.field(word)?)),
            None if matches!(&*name, "count" | "rate") => None,
            None => return wrong(self.report, text.span, format!("`{name}` needs a field")),
        };
        let numbers_max = match &*name {
            "quantile" => 1,
            "histogram" => BOUNDS_MAX,
            _ => 0,
        };
        if let Some(word) = numbers.get(numbers_max) {
            let message = match numbers_max {
                0 => format!("`{name}` takes no number"),
                max => format!("`{name}` takes at most {max} numbers"),
            };
            return wrong(self.report, word.span, message);
        }
        if let Some((word, index)) = field {
            self.check_type(&name, word, index)?;
        }
        let function = match &*name {
            "count" => Function::Count,
            "sum" => Function::Sum,
            "min" => Function::Min,
            "max" => Function::Max,
            "mean" => Function::Mean,
            "rate" => Function::Rate,
            "median" => Function::Quantile(0.5),
            "distinct" => Function::Distinct,
            "first" => Function::First,
            "last" => Function::Last,
            "quantile" => {
                let Some(word) = numbers.first() else {
                    return wrong(self.report, text.span, "`quantile` needs a share".to_string());
                };
                match self.number(word, ValueType::Fraction)? {
                    share @ 0.0..=1.0 => Function::Quantile(share),
                    other => {
                        let percent = format!("a share is between 0 and 1, and not {other}");
                        return wrong(self.report, word.span, percent);
                    }
                }
            }
            _ => {
                let of = field.map_or(ValueType::Unsigned, |(_, index)| self.names.fields[index].value_type);
                Function::Histogram(self.bounds(&numbers, of)?)
            }
        };
        let name = name_of(text);
        Some(Measure { function, field: field.map(|(_, index)| index), name, is_hidden })
    }

    fn bounds(&mut self, numbers: &[&Word], of: ValueType) -> Option<Vec<u64>> {
        let mut bounds: Vec<u64> = vec![];
        for word in numbers {
            let number = self.number(word, of)?;
            let bound = number as u64;
            let wrong = match bounds.last() {
                _ if number.fract() != 0.0 || number >= u64::MAX as f64 => Some("is no whole number"),
                Some(last) if *last >= bound => Some("is too small"),
                _ => None,
            };
            if let Some(wrong) = wrong {
                let help = "bounds are whole numbers, each larger than the one before".to_string();
                let message = format!("the bound {} {wrong}", word.text);
                self.report.error(ARGUMENTS, word.span, message).help = Some(help);
                return None;
            }
            bounds.push(bound);
        }
        Some(bounds)
    }

    fn unknown_function(&mut self, word: &Word) {
        let name = word.text.to_ascii_lowercase();
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, known)| *known);
        let near = other.or_else(|| suggest(&name, FUNCTIONS.iter().map(|(known, _)| *known)));
        let usage = near.and_then(|near| FUNCTIONS.iter().find(|(known, _)| *known == near));
        let help = match usage {
            Some((_, usage)) => format!("did you mean {usage}?"),
            None => {
                let all: Vec<&str> = FUNCTIONS.iter().map(|(known, _)| *known).collect();
                format!("there are {}", all.join(", "))
            }
        };
        let message = format!("there is no function `{}`", word.text);
        self.report.error(UNKNOWN_FUNCTION, word.span, message).help = Some(help);
    }

    /// Checks that a function takes values of a field's type.
    fn check_type(&mut self, function: &str, word: &Word, index: usize) -> Option<()> {
        let field = &self.names.fields[index];
        let has_numbers =
            matches!(field.value_type, ValueType::Unsigned | ValueType::Interval | ValueType::Fraction);
        let has_order = has_numbers || field.value_type == ValueType::Time;
        let is_one = !matches!(field.value_type, ValueType::Texts | ValueType::Numbers) && !field.is_protocol;
        let is_right = match function {
            "count" => true,
            "min" | "max" => has_order,
            "distinct" | "first" | "last" => is_one,
            _ => has_numbers,
        };
        if is_right {
            return Some(());
        }
        let what = kind_of(field);
        let message = format!("`{function}` cannot be computed of `{}`, which is {what}", word.text);
        let help = match is_one {
            true => {
                format!("`distinct({0})` counts its different values, `by {0}` groups by them", word.text)
            }
            false => format!("`count({})` counts the records that have it", word.text),
        };
        self.report.error(ARGUMENTS, word.span, message).help = Some(help);
        None
    }

    fn keys(&mut self, texts: &[(Word, Option<Word>)], shorthands: &[Shorthand<'_>]) -> Vec<Key> {
        let mut keys = vec![];
        for (word, name) in texts {
            let is_meant = |short: &&Shorthand<'_>| word.text.eq_ignore_ascii_case(short.word);
            let Some(shorthand) = shorthands.iter().find(is_meant) else {
                keys.extend(self.key(word, name.as_ref()));
                continue;
            };
            let is_second = shorthand.is_two_way && keys.iter().any(|key: &Key| key.end.is_some());
            if is_second {
                let message = "a key has the ends of one connection";
                self.report.error(KEY, word.span, message).help = Some(format!("leave `{}` out", word.text));
                continue;
            }
            let [sender, receiver] = shorthand.ends;
            for (fields, end) in
                [(sender, Some(End::Sender)), (receiver, Some(End::Receiver)), (shorthand.rest, None)]
            {
                let end = end.filter(|_| shorthand.is_two_way);
                for name in fields {
                    let Some(field) = self.names.lookup(name) else {
                        let message = format!("these records have no `{name}`, which `{}` has", word.text);
                        let help = "name fields that the records have".to_string();
                        self.report.error(KEY, word.span, message).help = Some(help);
                        continue;
                    };
                    keys.push(Key { field, prefix: None, end, name: (*name).to_string() });
                }
            }
        }
        if keys.len() > PARTS_MAX {
            let span = texts[0].0.span;
            self.report.error(codes::LIMIT, span, format!("a key has at most {PARTS_MAX} parts"));
        }
        keys
    }

    fn key(&mut self, word: &Word, name: Option<&Word>) -> Option<Key> {
        let (field_text, bits) = match word.text.split_once('/') {
            Some((field, bits)) => (field, Some(bits)),
            None => (word.text.as_str(), None),
        };
        let span = Span { end: word.span.start + field_text.len() as u32, ..word.span };
        let index = self.field(&Word { text: field_text.to_string(), span })?;
        let field = &self.names.fields[index];
        let address_bits = match field.value_type {
            ValueType::Ipv4 => 32,
            ValueType::Ipv6 | ValueType::Address => 128,
            _ => 0,
        };
        let mut wrong = |span: Span, message: String, help: String| {
            self.report.error(KEY, span, message).help = Some(help);
        };
        if field.is_protocol
            || field.is_frame
            || matches!(field.value_type, ValueType::Texts | ValueType::Numbers)
        {
            let message = format!("records cannot be grouped by `{field_text}`, which is {}", kind_of(field));
            wrong(span, message, "a key has one value for each record".to_string());
            return None;
        }
        let prefix = match bits {
            None => None,
            Some(_) if address_bits == 0 => {
                let message = format!("`{field_text}` is no address, and has no prefix");
                wrong(word.span, message, format!("write `{field_text}`"));
                return None;
            }
            Some(bits) => match bits.parse::<u8>().ok().filter(|bits| (1..=address_bits).contains(bits)) {
                Some(bits) => Some(bits),
                None => {
                    let message = format!("`/{bits}` is no prefix of `{field_text}`");
                    wrong(word.span, message, format!("its addresses have {address_bits} bits"));
                    return None;
                }
            },
        };
        let name = name.map_or_else(|| word.text.clone(), |name| name.text.clone());
        Some(Key { field: index, prefix, end: None, name })
    }

    fn window(&mut self, tree: &Tree) -> Option<Window> {
        let step = tree.every.as_ref();
        let Some(step) = step else {
            if let Some(over) = &tree.over {
                let help = format!("write `over {} every TIME`, for example `over {0} every 10s`", over.text);
                self.report.error(WINDOW, over.span, "`over` needs `every`").help = Some(help);
            }
            return None;
        };
        let step_ns = self.time(step)?;
        let length_ns = match &tree.over {
            Some(over) => self.time(over)?,
            None => step_ns,
        };
        if !length_ns.is_multiple_of(step_ns) {
            let over = tree.over.as_ref().map_or(step.span, |over| over.span);
            let message = "the length of the window is no multiple of its step";
            let help = "for example `over 60s every 10s`".to_string();
            self.report.error(WINDOW, over, message).help = Some(help);
            return None;
        }
        Some(Window { length_ns, step_ns })
    }

    fn time(&mut self, word: &Word) -> Option<u64> {
        let wrong = match literal::parse_interval(&word.text) {
            Ok(0) => "a window without length".to_string(),
            Ok(ns) => return Some(ns),
            Err(_) => format!("`{}` is no time", word.text),
        };
        let help = "for example 500ms, 10s, 5m, 1h".to_string();
        self.report.error(WINDOW, word.span, wrong).help = Some(help);
        None
    }

    /// The index of a measure that is meant; one that has no column yet is added.
    fn meant(&mut self, meant: &Meant) -> Option<usize> {
        match meant {
            Meant::Named(word) => {
                let found = self.measures.iter().position(|measure| measure.name == word.text);
                if found.is_none() {
                    let names: Vec<&str> =
                        self.measures.iter().map(|measure| measure.name.as_str()).collect();
                    let near = suggest(&word.text, names.iter().copied());
                    let help = match near {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!(
                            "there are {}; a field is in a function, as in `max({})`",
                            names.join(", "),
                            word.text
                        ),
                    };
                    let message = format!("there is no measure `{}`", word.text);
                    self.report.error(CLAUSE, word.span, message).help = Some(help);
                }
                found
            }
            Meant::Call(call) => {
                let measure = self.measure(call, true)?;
                let is_same =
                    |known: &Measure| (&known.function, known.field) == (&measure.function, measure.field);
                let known = self.measures.iter().position(is_same);
                known.or_else(|| {
                    self.measures.push(measure);
                    Some(self.measures.len() - 1)
                })
            }
        }
    }

    fn condition(&mut self, text: &ConditionText) -> Option<Condition> {
        // All parts are resolved, so that all mistakes are found.
        let mut all = |parts: &[ConditionText]| -> Option<Vec<Condition>> {
            let parts: Vec<Option<Condition>> = parts.iter().map(|part| self.condition(part)).collect();
            parts.into_iter().collect()
        };
        match text {
            ConditionText::Wrong => None,
            ConditionText::All(parts) => all(parts).map(Condition::All),
            ConditionText::Any(parts) => all(parts).map(|mut parts| match parts.len() {
                1 => parts.remove(0),
                _ => Condition::Any(parts),
            }),
            ConditionText::Not(part) => self.condition(part).map(|part| Condition::Not(Box::new(part))),
            ConditionText::Is(meant, comparison, number) => {
                let measure = self.comparable(meant)?;
                let field = self.measures[measure].field.map(|field| self.names.fields[field].value_type);
                let of = match (field, &self.measures[measure].function) {
                    (None, _) | (_, Function::Count | Function::Distinct | Function::Rate) => {
                        ValueType::Fraction
                    }
                    (Some(of), _) => of,
                };
                Some(Condition::Is(measure, *comparison, self.number(number, of)?))
            }
        }
    }

    /// A measure that is a number.
    fn comparable(&mut self, meant: &Meant) -> Option<usize> {
        let index = self.meant(meant)?;
        let span = match meant {
            Meant::Named(word) => word.span,
            Meant::Call(call) => call.span,
        };
        self.has_number(index, span).then_some(index)
    }

    /// Whether a measure is a number; reports that it is none.
    fn has_number(&mut self, index: usize, span: Span) -> bool {
        let measure = &self.measures[index];
        let has_number = match (&measure.function, measure.field) {
            (Function::Histogram(_), _) => false,
            (Function::First | Function::Last, Some(field)) => {
                let value_type = self.names.fields[field].value_type;
                matches!(
                    value_type,
                    ValueType::Unsigned | ValueType::Interval | ValueType::Fraction | ValueType::Time
                )
            }
            _ => true,
        };
        if !has_number {
            let message = format!("`{}` is no number, and cannot be compared", measure.name);
            self.report.error(ARGUMENTS, span, message);
        }
        has_number
    }

    fn top(&mut self, count: &Word, by: Option<&Meant>) -> Option<Top> {
        let measure = match by {
            Some(meant) => self.comparable(meant),
            None => (!self.measures.is_empty() && self.has_number(0, count.span)).then_some(0),
        };
        match literal::parse_number(&count.text).ok().and_then(|count| usize::try_from(count).ok()) {
            Some(count @ 1..) => Some(Top { rows: count, by: measure? }),
            _ => {
                let message = format!("`{}` is no number of groups", count.text);
                self.report.error(CLAUSE, count.span, message).help =
                    Some("for example `top 20`".to_string());
                None
            }
        }
    }

    /// Reports columns with the same name.
    fn check_names(&mut self, tree: &Tree, keys: &[Key]) {
        let of_keys = keys.iter().map(|key| key.name.clone());
        let shown = self.measures.iter().filter(|measure| !measure.is_hidden);
        let of_measure = |measure: &Measure| {
            let from = matches!(measure.function, Function::Histogram(_));
            [Some(measure.name.clone()), from.then(|| format!("{}_from", measure.name))].into_iter().flatten()
        };
        let names: Vec<String> = of_keys.chain(shown.flat_map(of_measure)).collect();
        let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        let Some((_, name)) =
            twice.or_else(|| names.iter().enumerate().find(|(_, name)| RESERVED.contains(&name.as_str())))
        else {
            return;
        };
        let of_measure =
            tree.measures.iter().rfind(|measure| name_of(measure) == *name).map(|measure| measure.span);
        let of_key = tree.keys.iter().rfind(|(word, _)| word.text == *name).map(|(word, _)| word.span);
        let span =
            of_measure.or(of_key).or(tree.measures.first().map(|measure| measure.span)).unwrap_or_default();
        let name = name.as_str();
        let message = match RESERVED.contains(&name) {
            true => format!("the rows of aggregates have a column `{name}` already"),
            false => format!("two columns are called `{name}`"),
        };
        let help = "name one of them: `sum(frame.len) as bytes`".to_string();
        self.report.error(NAME, span, message).help = Some(help);
    }
}

/// Nanoseconds per second.
const SECOND_NS: f64 = 1e9;

/// Whether a word is a number without a unit.
fn is_fraction(word: &Word) -> bool {
    word.text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Names of columns of every row.
const RESERVED: &[&str] = &["ts", "te", "other", "inexact"];

fn kind_of(field: &FieldInfo) -> &'static str {
    match field.value_type {
        _ if field.is_protocol => "a protocol",
        _ if field.is_frame => "the whole frame",
        ValueType::Bool => "true or false",
        ValueType::Unsigned | ValueType::Fraction => "a number",
        ValueType::Time => "a time",
        ValueType::Interval => "an interval",
        ValueType::Ipv4 | ValueType::Ipv6 | ValueType::Address | ValueType::Mac => "an address",
        ValueType::Text => "a text",
        ValueType::Bytes => "a sequence of bytes",
        ValueType::Texts | ValueType::Numbers => "a list",
    }
}
