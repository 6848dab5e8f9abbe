//! Kinds of references with the begin of their addresses (`reference.config`):
//! `config reference: cve https://…?name=`.

use super::{config, read, wrong};
use rustc_hash::FxHashMap;
use weir_lang::diag::Diagnostic;

const FORM: &str = "write for example `config reference: url http://`";

/// The begin of addresses by the kind of a reference. The default are those of kinds that rules use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct References(FxHashMap<String, String>);

const USUAL: &[(&str, &str)] = &[
    ("arachnids", "http://www.whitehats.com/info/IDS"),
    ("bid", "http://www.securityfocus.com/bid/"),
    ("bugtraq", "http://www.securityfocus.com/bid/"),
    ("cve", "http://cve.mitre.org/cgi-bin/cvename.cgi?name="),
    ("et", "http://doc.emergingthreats.net/"),
    ("etpro", "http://doc.emergingthreatspro.com/"),
    ("exploitdb", "http://www.exploit-db.com/exploits/"),
    ("mcafee", "http://vil.nai.com/vil/dispVirus.asp?virus_k="),
    ("md5", "http://www.threatexpert.com/report.aspx?md5="),
    ("msft", "http://technet.microsoft.com/security/bulletin/"),
    ("nessus", "http://cgi.nessus.org/plugins/dump.php3?id="),
    ("osvdb", "http://osvdb.org/show/osvdb/"),
    ("secunia", "http://www.secunia.com/advisories/"),
    ("securitytracker", "http://securitytracker.com/id?"),
    ("telus", "http://"),
    ("threatexpert", "http://www.threatexpert.com/report.aspx?md5="),
    ("url", "http://"),
    ("xforce", "http://xforce.iss.net/xforce/xfdb/"),
];

impl Default for References {
    fn default() -> Self {
        Self(USUAL.iter().map(|(kind, begin)| (kind.to_string(), begin.to_string())).collect())
    }
}

impl References {
    /// Adds the kinds of a file; those with the same name are replaced. Returns the mistakes. `source`: the
    /// text's number in the sources of diagnostics.
    pub fn read(&mut self, text: &str, source: u16) -> Vec<Diagnostic> {
        read(text, source, |line| {
            let rest = config(line, "reference", FORM)?;
            let Some((kind, begin)) = rest.split_once(char::is_whitespace) else {
                return Err(wrong(
                    line,
                    rest,
                    "a kind of references has a name and the begin of an address",
                    FORM,
                ));
            };
            self.0.insert(kind.to_ascii_lowercase(), begin.trim().to_string());
            Ok(())
        })
    }

    /// The address of a rule's reference; `None` if the kind is not known.
    pub fn address(&self, kind: &str, place: &str) -> Option<String> {
        let begin = self.0.get(kind).or_else(|| self.0.get(&kind.to_ascii_lowercase()))?;
        // Some rules state the address as a whole.
        let is_whole = place.starts_with("http://") || place.starts_with("https://");
        Some(if is_whole { place.to_string() } else { format!("{begin}{place}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_addresses() {
        let mut references = References::default();
        assert_eq!(references.read("#x\nconfig reference: mine\thttps://example.com/?id=\n", 0), []);
        let of = |kind: &str, place: &str| references.address(kind, place);
        assert_eq!(of("mine", "7").as_deref(), Some("https://example.com/?id=7"));
        assert_eq!(of("URL", "example.com/a").as_deref(), Some("http://example.com/a"));
        assert_eq!(of("url", "https://example.com/a").as_deref(), Some("https://example.com/a"));
        assert_eq!(of("nobody", "1"), None);
        let wrong = References::default().read("config reference: mine", 0);
        assert_eq!(wrong[0].message, "a kind of references has a name and the begin of an address");
    }
}
