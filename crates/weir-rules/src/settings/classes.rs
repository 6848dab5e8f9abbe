//! Classes of rules with their priorities (`classification.config`):
//! `config classification: NAME,DESCRIPTION,PRIORITY`.

use super::{config, read, wrong};
use crate::model::Rule;
use rustc_hash::FxHashMap;
use weir_lang::diag::Diagnostic;

/// The priority of rules that have neither a priority nor a known class.
pub const PRIORITY: u8 = 3;

const FORM: &str =
    "write for example `config classification: web-application-attack,Web Application Attack,1`";

/// A class of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// What alerts show.
    pub description: String,
    /// 1 is the highest.
    pub priority: u8,
}

/// Classes by name. The default are the usual ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes(FxHashMap<String, Class>);

/// Names, priorities and descriptions that Suricata comes with.
const USUAL: &[(&str, u8, &str)] = &[
    ("not-suspicious", 3, "Not Suspicious Traffic"),
    ("unknown", 3, "Unknown Traffic"),
    ("bad-unknown", 2, "Potentially Bad Traffic"),
    ("attempted-recon", 2, "Attempted Information Leak"),
    ("successful-recon-limited", 2, "Information Leak"),
    ("successful-recon-largescale", 2, "Large Scale Information Leak"),
    ("attempted-dos", 2, "Attempted Denial of Service"),
    ("successful-dos", 2, "Denial of Service"),
    ("attempted-user", 1, "Attempted User Privilege Gain"),
    ("unsuccessful-user", 1, "Unsuccessful User Privilege Gain"),
    ("successful-user", 1, "Successful User Privilege Gain"),
    ("attempted-admin", 1, "Attempted Administrator Privilege Gain"),
    ("successful-admin", 1, "Successful Administrator Privilege Gain"),
    ("rpc-portmap-decode", 2, "Decode of an RPC Query"),
    ("shellcode-detect", 1, "Executable code was detected"),
    ("string-detect", 3, "A suspicious string was detected"),
    ("suspicious-filename-detect", 2, "A suspicious filename was detected"),
    ("suspicious-login", 2, "An attempted login using a suspicious username was detected"),
    ("system-call-detect", 2, "A system call was detected"),
    ("tcp-connection", 4, "A TCP connection was detected"),
    ("trojan-activity", 1, "A Network Trojan was detected"),
    ("unusual-client-port-connection", 2, "A client was using an unusual port"),
    ("network-scan", 3, "Detection of a Network Scan"),
    ("denial-of-service", 2, "Detection of a Denial of Service Attack"),
    ("non-standard-protocol", 2, "Detection of a non-standard protocol or event"),
    ("protocol-command-decode", 3, "Generic Protocol Command Decode"),
    ("web-application-activity", 2, "access to a potentially vulnerable web application"),
    ("web-application-attack", 1, "Web Application Attack"),
    ("misc-activity", 3, "Misc activity"),
    ("misc-attack", 2, "Misc Attack"),
    ("icmp-event", 3, "Generic ICMP event"),
    ("inappropriate-content", 1, "Inappropriate Content was Detected"),
    ("policy-violation", 1, "Potential Corporate Privacy Violation"),
    ("default-login-attempt", 2, "Attempt to login by a default username and password"),
    ("targeted-activity", 1, "Targeted Malicious Activity was Detected"),
    ("exploit-kit", 1, "Exploit Kit Activity Detected"),
    ("external-ip-check", 2, "Device Retrieving External IP Address Detected"),
    ("domain-c2", 1, "Domain Observed Used for C2 Detected"),
    ("pup-activity", 2, "Possibly Unwanted Program Detected"),
    ("credential-theft", 1, "Successful Credential Theft Detected"),
    ("social-engineering", 2, "Possible Social Engineering Attempted"),
    ("coin-mining", 2, "Crypto Currency Mining Activity Detected"),
    ("command-and-control", 1, "Malware Command and Control Activity Detected"),
];

impl Default for Classes {
    fn default() -> Self {
        let class = |&(name, priority, description): &(&str, u8, &str)| {
            (name.to_string(), Class { description: description.to_string(), priority })
        };
        Self(USUAL.iter().map(class).collect())
    }
}

impl Classes {
    /// Adds the classes of a file; those with the same name are replaced. Returns the mistakes. `source`: the
    /// text's number in the sources of diagnostics.
    pub fn read(&mut self, text: &str, source: u16) -> Vec<Diagnostic> {
        read(text, source, |line| {
            let rest = config(line, "classification", FORM)?;
            let parts = rest.split_once(',').and_then(|(name, rest)| Some((name, rest.rsplit_once(',')?)));
            let Some((name, (description, priority))) = parts else {
                return Err(wrong(line, rest, "a class has a name, a description and a priority", FORM));
            };
            let [name, description, priority] = [name, description, priority].map(str::trim);
            let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            if !is_name {
                return Err(wrong(line, name, format!("`{name}` is no name of a class"), FORM));
            }
            let number = priority.parse().ok().filter(|number| *number > 0);
            let help = "priorities are 1 (the highest) to 255";
            let number =
                number.ok_or_else(|| wrong(line, priority, format!("`{priority}` is no priority"), help))?;
            let class = Class { description: description.to_string(), priority: number };
            self.0.insert(name.to_ascii_lowercase(), class);
            Ok(())
        })
    }

    /// The class of a name; upper and lower case are the same.
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.0.get(name).or_else(|| self.0.get(&name.to_ascii_lowercase()))
    }

    /// The priority of a rule: its own, or that of its class, or [`PRIORITY`].
    pub fn priority(&self, rule: &Rule) -> u8 {
        let of_class = || rule.class.as_deref().and_then(|name| self.class(name)).map(|class| class.priority);
        rule.priority.or_else(of_class).unwrap_or(PRIORITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Variables, parse};

    #[test]
    fn priorities_are_those_of_rules_or_classes() {
        let mut classes = Classes::default();
        let text = "# Own ones.\n\nconfig classification: Own-Class, Mine, and only mine, 7\nconfig classification:misc-attack,X,9\n";
        assert_eq!(classes.read(text, 0), []);
        let own = Class { description: "Mine, and only mine".to_string(), priority: 7 };
        assert_eq!(classes.class("own-class"), Some(&own));
        for (options, priority) in [
            ("", 3),
            ("classtype:nobody;", 3),
            ("classtype:trojan-activity;", 1),
            ("classtype:OWN-CLASS;", 7),
            ("classtype:misc-attack;", 9),
            ("classtype:misc-attack; priority:2;", 2),
        ] {
            let rule =
                parse(&format!("alert ip any any -> any any ({options} sid:1;)"), 0, &Variables::default());
            assert_eq!(classes.priority(rule[0].rule.as_ref().expect(options)), priority, "{options}");
        }
    }

    #[test]
    fn mistakes_have_a_place() {
        for (text, message, place) in [
            ("config x: a,b,1", "the line does not begin with `config classification:`", "config x: a,b,1"),
            ("config classification: a,1", "a class has a name, a description and a priority", "a,1"),
            ("config classification: a b,c,1", "`a b` is no name of a class", "a b"),
            ("config classification: a,c,0", "`0` is no priority", "0"),
            ("config classification: a,c,256", "`256` is no priority", "256"),
        ] {
            let wrong = Classes::default().read(text, 0);
            let span = wrong[0].spans[0].0;
            assert_eq!(
                (wrong[0].message.as_str(), &text[span.start as usize..span.end as usize]),
                (message, place)
            );
        }
    }
}
