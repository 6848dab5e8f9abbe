//! Warns of questions for sessions whose filter requires a session of another protocol: `weir http dns`. A
//! filter applies to the session itself, so such a question never matches.

use weir_compile::{FieldKey, StackCatalog};
use weir_lang::diag::Diagnostic;
use weir_lang::filter::{Expr, Predicate};
use weir_sessions::{ProtocolSet, SessionRegistry};

/// The sessions that questions ask for.
pub(crate) struct Asked<'a> {
    pub catalog: &'a StackCatalog,
    pub registry: &'a SessionRegistry,
    /// Protocols whose sessions are wanted.
    pub asked: ProtocolSet,
}

impl Asked<'_> {
    /// A warning for each field that filters do not know; or else for each other protocol that all
    /// alternatives of a filter require, and none if some alternative may match.
    pub fn contradictions(&self, expr: &Expr) -> Vec<Diagnostic> {
        let mut late = vec![];
        self.only_in_rows(expr, &mut late);
        if !late.is_empty() {
            let warning = |predicate: &Predicate| {
                let message = "filters do not know this value: other rows decide it, after the filter";
                let help = "select the rows instead, for instance with `jq`";
                Diagnostic::warning("W0200", message).at(predicate.span).help(help)
            };
            return late.into_iter().map(warning).collect();
        }
        let mut others = vec![];
        if self.may_hold(expr, &mut others) {
            return vec![];
        }
        others.sort_by_key(|(protocol, _)| *protocol);
        others.dedup_by_key(|(protocol, _)| *protocol);
        let of = self.registry.names(self.asked).collect::<Vec<_>>().join(", ");
        let warning = |(protocol, predicate): (usize, &Predicate)| {
            let other = self.registry.protocol(protocol);
            let (name, service) = (other.name, other.service);
            let message =
                format!("this never holds: sessions of {of} are wanted, and this asks for one of {name}");
            let help = format!(
                "`weir {name}` has those; what else a connection carried says \
                 `conn.service contains \"{service}\"`"
            );
            Diagnostic::warning("W0200", message).at(predicate.span).help(help)
        };
        others.into_iter().map(warning).collect()
    }

    /// Adds the predicates on fields that only rows have.
    fn only_in_rows<'e>(&self, expr: &'e Expr, late: &mut Vec<&'e Predicate>) {
        match expr {
            Expr::True => {}
            Expr::And(parts) | Expr::Or(parts) => {
                parts.iter().for_each(|part| self.only_in_rows(part, late));
            }
            Expr::Predicate(predicate) => {
                if let FieldKey::SessionField(protocol, index) = self.catalog.key(predicate.field)
                    && let number = usize::from(protocol)
                    && number < self.registry.protocols().len()
                    && let Some(field) = self.registry.protocol(number).fields.get(usize::from(index))
                    && self.registry.is_only_in_rows(number, field)
                {
                    late.push(predicate);
                }
            }
        }
    }

    /// Whether a session of the wanted protocols may match the expression; predicates that prevent it are
    /// added to `others`.
    fn may_hold<'e>(&self, expr: &'e Expr, others: &mut Vec<(usize, &'e Predicate)>) -> bool {
        // All parts are visited, so that all contradictions are reported.
        let mut count = |parts: &'e [Expr]| parts.iter().filter(|part| self.may_hold(part, others)).count();
        match expr {
            Expr::True => true,
            Expr::And(parts) => count(parts) == parts.len(),
            Expr::Or(parts) => count(parts) > 0,
            Expr::Predicate(predicate) => match self.catalog.key(predicate.field) {
                FieldKey::Session(protocol) | FieldKey::SessionField(protocol, _) => {
                    let protocol = usize::from(protocol);
                    let may = predicate.negated || self.asked.contains(protocol);
                    if !may {
                        others.push((protocol, predicate));
                    }
                    may
                }
                _ => true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ask, Compiler, Log, Need, Options, Want};
    use weir_sessions::SessionRegistry;

    /// The data that rows of a log need.
    fn asked(log: &str) -> Want {
        Want::Sessions(Log::of(SessionRegistry::builtin(), log).expect("there is one").asked())
    }

    /// The texts of the warnings for a filter on sessions of a log.
    fn warned(log: &str, filter: &str) -> Vec<String> {
        let want = asked(log);
        let ask = Ask { filter: filter.into(), need: Need::default(), want };
        let compiled = Compiler::default().compile(&[ask], &Options::default()).expect("it is right");
        let list = compiled.warnings.list.into_iter().filter(|one| one.code == "W0200");
        list.map(|one| filter[one.spans[0].0.start as usize..one.spans[0].0.end as usize].to_string())
            .collect()
    }

    #[test]
    fn sessions_of_another_protocol_are_never_found() {
        assert_eq!(warned("http", "dns"), ["dns"]);
        assert_eq!(warned("mqtt", "tcp and tls.sni == \"x\""), ["tls.sni == \"x\""]);
        assert_eq!(warned("http", "dns or tls and http"), ["tls", "dns"]);
        assert_eq!(warned("http", "http and dns"), ["dns"]);
    }

    #[test]
    fn values_that_only_rows_have_are_told_of() {
        assert_eq!(warned("rtp", "rtp.call_id == \"x\" and udp"), ["rtp.call_id == \"x\""]);
        assert_eq!(warned("dhcp", "dhcp.uids contains \"x\" or dhcp"), ["dhcp.uids contains \"x\""]);
        assert!(warned("sip", "sip.call_id == \"x\"").is_empty());
    }

    #[test]
    fn one_filter_for_several_logs_is_about_those_that_it_names() {
        let warnings = |logs: &[&str]| {
            let ask = |log: &&str| Ask { filter: "dns".into(), need: Need::default(), want: asked(log) };
            let asks: Vec<Ask> = logs.iter().map(ask).collect();
            let compiled = Compiler::default().compile(&asks, &Options::default()).expect("it is right");
            compiled.warnings.list.len()
        };
        assert_eq!(warnings(&["http", "dns", "tls"]), 0);
        assert_eq!(warnings(&["http", "tls"]), 1);
        let ask = Ask {
            filter: "udp.length < 0 or tcp.len < 0".into(),
            need: Need::default(),
            want: Want::Packets,
        };
        let compiled =
            Compiler::default().compile(&[ask.clone(), ask], &Options::default()).expect("it is right");
        assert_eq!(compiled.warnings.list.len(), 2, "each place once");
    }

    #[test]
    fn what_may_be_is_not_warned_of() {
        for (log, filter) in [
            ("http", ""),
            ("http", "not dns"),
            ("http", "dns or tcp.port == 80"),
            ("http", "http.request.method == \"GET\" and tcp"),
            ("http", "conn.service contains \"dns\""),
            // The log of TLS also has the handshakes in DTLS and QUIC.
            ("tls", "quic"),
            ("tls", "dtls or tls"),
            ("files", "http or smtp"),
        ] {
            assert_eq!(warned(log, filter), Vec::<String>::new(), "{log} {filter}");
        }
        let want = Want::Sessions(SessionRegistry::builtin().all());
        let all = Ask { filter: "dns".into(), need: Need::default(), want };
        let compiled = Compiler::default().compile(&[all], &Options::default()).expect("it is right");
        assert!(compiled.warnings.list.is_empty());
    }
}
