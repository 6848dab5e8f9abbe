//! Warns of filters that never match: those of questions for sessions that require a session of another
//! protocol (`weir http dns`; a filter applies to the session itself), and those on values that only rows
//! have (`rtp.call_id`).

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
    /// A warning for each other protocol that all alternatives of a filter require. None if some alternative
    /// may match.
    pub fn contradictions(&self, expr: &Expr) -> Vec<Diagnostic> {
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

/// A warning for each condition on a value that only rows have: the value is written into a row after the
/// filter has selected the row's session.
pub(crate) fn only_in_rows(
    expr: &Expr,
    catalog: &StackCatalog,
    registry: &SessionRegistry,
) -> Vec<Diagnostic> {
    match expr {
        Expr::True => vec![],
        Expr::And(parts) | Expr::Or(parts) => {
            parts.iter().flat_map(|part| only_in_rows(part, catalog, registry)).collect()
        }
        Expr::Predicate(predicate) => {
            let FieldKey::SessionField(protocol, index) = catalog.key(predicate.field) else { return vec![] };
            let number = usize::from(protocol);
            let field = registry.protocols().get(number).and_then(|of| of.fields.get(usize::from(index)));
            if !field.is_some_and(|field| registry.is_only_in_rows(number, field)) {
                return vec![];
            }
            let message =
                "a filter does not know this value: it is written into rows that are selected already";
            let help = "leave the condition out, and select the rows: `--format json | jq 'select(…)'`";
            vec![Diagnostic::warning("W0119", message).at(predicate.span).help(help)]
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
        warned_of("W0200", asked(log), filter)
    }

    /// The texts of the warnings with this code for a filter.
    fn warned_of(code: &str, want: Want, filter: &str) -> Vec<String> {
        let ask = Ask { filter: filter.into(), need: Need::default(), want };
        let compiled = Compiler::default().compile(&[ask], &Options::default()).expect("it is right");
        let list = compiled.warnings.list.into_iter().filter(|one| one.code == code);
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
        let call = "rtp.call_id == \"x\"";
        for want in [asked("rtp"), asked("http"), Want::Packets, Want::Connections] {
            let filter = format!("{call} and udp or dhcp.uids contains \"x\"");
            assert_eq!(warned_of("W0119", want, &filter), [call, "dhcp.uids contains \"x\""]);
            assert!(warned_of("W0119", want, "sip.call_id == \"x\"").is_empty());
        }
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
