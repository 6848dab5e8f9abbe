//! The text form of a graph: [`Graph`](crate::graph::Graph) prints with `Display` and parses with `FromStr`.
//! Printed text that is parsed prints the same again. The grammar is at the head of [`crate::graph`].

mod error;
mod lexer;
mod operand;
mod parse;
mod parse_op;
mod parse_terminator;
mod print;
mod words;

pub use error::ParseError;
pub use parse::parse;

#[cfg(test)]
mod tests {
    use super::operand::Word;
    use crate::graph::operations::operations;
    use crate::graph::{BinaryOp, CompareOp, Graph, NumberFormat};

    /// One line of every construct; the graph need not be valid.
    const ALL: &str = include_str!("all.weirir");

    #[test]
    fn every_construct_prints_as_it_was_written() {
        let graph: Graph = ALL.parse().expect("it parses");
        assert_eq!(graph.to_string(), ALL);
        let again: Graph = graph.to_string().parse().expect("what was printed parses");
        assert_eq!(again, graph);
    }

    /// The words that begin an instruction.
    macro_rules! words {
        ([$kind:ident]) => {
            $kind::WORDS.iter().map(|(_, word)| *word).collect()
        };
        ($word:literal) => {
            vec![$word]
        };
    }

    macro_rules! all_words {
        ($( $(#[$doc:meta])* $name:ident $word:tt $(($($part:tt)*))? $({$($field:tt)*})? -> $result:tt $effect:ident $(($touched:ident))?; )*) => {
            fn all_words() -> Vec<Vec<&'static str>> {
                vec![$(words!($word)),*]
            }
        };
    }
    operations!(all_words);

    #[test]
    fn the_grammar_has_every_operation() {
        let head = include_str!("../graph.rs").lines().take_while(|line| line.starts_with("//!"));
        let grammar: Vec<&str> =
            head.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
        for word in all_words().concat() {
            assert!(grammar.contains(&word), "`{word}` is not in the grammar at the head of graph.rs");
        }
    }

    #[test]
    fn errors_name_the_line_and_the_column() {
        let error = |text: &str| text.parse::<Graph>().expect_err("it must not parse").to_string();
        assert_eq!(error("block0:\n    v0 = cosnt 1\n"), "2:10: there is no instruction `cosnt`");
        assert_eq!(error("block0:\n    v0 = add v1\n"), "2:16: expected `vN`, found the end of the line");
        assert_eq!(error("block1:\n"), "1:1: `block0` comes next");
        assert_eq!(error("block0:\n    v0 = const 1\n"), "2:1: the last block has no end");
        assert_eq!(error("graph \"x\n"), "1:7: the text has no closing quote");
        assert_eq!(
            error("block0:\n    v1 = const 99999999999999999999\n"),
            "2:16: the number is too large here"
        );
        assert_eq!(error("block0: #\n"), "1:9: `#` means nothing here");
        assert_eq!(error("block0:\n    restart x\n"), "2:13: expected the end of the line, found `x`");
        assert_eq!(error("fuels v1\n"), "1:7: expected a number, found `v1`");
        assert_eq!(error("; nothing\n"), "1:1: there are no blocks");
    }

    #[test]
    fn any_name_and_any_bytes_survive() {
        use crate::graph::PatternDecl;
        let mut graph: Graph = "block0:\n restart\n".parse().expect("it parses");
        graph.name = "a \"b\" \\ \n é".to_owned();
        graph.patterns.push(PatternDecl::Contains((0..=255).collect()));
        graph.patterns.push(PatternDecl::Matches("ü\\d+\u{85}".to_owned()));
        graph
            .outs
            .extend(["", "1st", "a..b", "two words", "dns.qry.name"].map(|name| name.to_owned().into()));
        assert_eq!(graph.to_string().parse(), Ok(graph));
    }
}
