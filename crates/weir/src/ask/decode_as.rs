//! Session protocols that the user states for ports: `tcp.port == 8443: tls`.

use super::compile::{Compiler, without_source};
use weir_engine::plan::ForcedProtocol;
use weir_lang::diag::{Diagnostic, Diagnostics};
use weir_lang::filter::{Catalog, Literal, Op, Predicate};

impl Compiler {
    /// The stated protocols, in the order of the texts.
    ///
    /// # Errors
    /// The mistakes of all texts.
    pub(crate) fn forced(&self, texts: &[String]) -> Result<Vec<ForcedProtocol>, Diagnostics> {
        let (mut all, mut wrong) = (vec![], Diagnostics::default());
        for text in texts {
            match self.forced_by(text) {
                Ok(forced) => all.extend(forced),
                Err(mistakes) => wrong.append(mistakes),
            }
        }
        if wrong.list.is_empty() { Ok(all) } else { Err(wrong) }
    }

    fn forced_by(&self, text: &str) -> Result<Vec<ForcedProtocol>, Diagnostics> {
        let wrong = |message: &str| {
            let help = "for instance `tcp.port == 8443: tls`: ports of a layer, and a session protocol (`weir --help` lists \
                        them)";
            without_source(Diagnostic::error("W0199", format!("--decode-as `{text}`: {message}")).help(help))
        };
        let (filter, name) = text.rsplit_once(':').ok_or_else(|| wrong("there is no `:`"))?;
        let name = name.trim();
        let protocol = self.sessions().number_of(name);
        let protocol = protocol.ok_or_else(|| wrong(&format!("there is no session protocol `{name}`")))?;
        let filter = self.filter(filter.trim(), false)?;
        let mut all = vec![];
        for term in &filter.terms {
            let ports = match term.predicates[..] {
                [predicate] => self.ports_of(&filter.predicates[predicate]),
                _ => None,
            };
            let (layer, ports) =
                ports.ok_or_else(|| wrong("only ports can be named, as in `tcp.port in {8443, 9443}`"))?;
            let forced = |ports| ForcedProtocol { layer: layer.to_string(), ports, protocol };
            all.extend(ports.into_iter().map(forced));
        }
        Ok(all)
    }

    /// The layer and the ports that a predicate names: the first and the last port of each range. `None`: the
    /// predicate is about something else.
    fn ports_of(&self, predicate: &Predicate) -> Option<(&str, Vec<(u64, u64)>)> {
        let (layer, field) = self.catalog().fields()[predicate.field].name.split_once('.')?;
        let is_equal = matches!(predicate.op, Op::Eq | Op::In) && !predicate.negated;
        let is_whole = predicate.mask.is_none() && predicate.slice.is_none();
        let ports = predicate.literals.iter().map(|literal| match literal {
            Literal::Numbers(first, last) => Some((*first, *last)),
            _ => None,
        });
        let ports = ports.collect::<Option<_>>()?;
        (field == "port" && is_equal && is_whole).then_some((layer, ports))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_ranges_are_named() {
        let texts = ["tcp.port == 8443: tls", "udp.port in {53, 5300..5310} : dns"].map(String::from);
        let forced = Compiler::default().forced(&texts).expect("right");
        let ports: Vec<_> = forced.iter().map(|one| (one.layer.as_str(), one.ports)).collect();
        assert_eq!(ports, [("tcp", (8443, 8443)), ("udp", (53, 53)), ("udp", (5300, 5310))]);
    }

    #[test]
    fn all_mistakes_are_reported() {
        let texts = ["tcp.port == 1", "tcp.port == 1: nonsense", "tcp.part == 1: tls", "ip.ttl == 1: tls"];
        let wrong = Compiler::default().forced(&texts.map(String::from)).expect_err("wrong");
        let expected = [
            "there is no `:`",
            "no session protocol `nonsense`",
            "did you mean `tcp.port`?",
            "only ports can be named",
        ];
        assert_eq!(wrong.list.len(), expected.len());
        let text = wrong.to_string();
        assert!(expected.iter().all(|expected| text.contains(expected)), "{text}");
    }
}
