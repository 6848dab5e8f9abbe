//! The names of both ends on the command line.

use crate::INSTANCES_MAX;
use std::fmt;
use std::net::IpAddr;

/// The form of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// That of [`wire`](crate::wire).
    Weir,
    /// TZSP, the TaZmen sniffer protocol.
    Tzsp,
}

/// The prefixes of names.
const FORMS: [(Form, &str); 2] = [(Form::Weir, "udp://"), (Form::Tzsp, "tzsp://")];

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct End {
    /// A name or an address, without brackets; empty for the loopback addresses.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// `udp://HOST:PORT[,HOST:PORT…]` or `tzsp://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The form of datagrams.
    pub form: Form,
    /// At least one end; several are instances.
    pub ends: Vec<End>,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = FORMS.iter().find(|(form, _)| *form == self.form).map_or("", |(_, prefix)| prefix);
        f.write_str(prefix)?;
        for (at, end) in self.ends.iter().enumerate() {
            write!(f, "{}{end}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl Name {
    /// Whether a text has the form of such a name, which may have mistakes.
    pub fn is_named(text: &str) -> bool {
        FORMS.iter().any(|(_, prefix)| text.starts_with(prefix))
    }

    /// The name; `None` if the text has another form.
    ///
    /// # Errors
    /// What is wrong, and the right form.
    pub fn of(text: &str) -> Option<Result<Self, String>> {
        let (form, rest) =
            FORMS.iter().find_map(|(form, prefix)| Some((*form, text.strip_prefix(prefix)?)))?;
        let ends: Option<Vec<Vec<End>>> = rest.split(',').map(ends).collect();
        let ends: Vec<End> = ends.into_iter().flatten().flatten().collect();
        Some(if ends.is_empty() { Err(RIGHT_FORM.to_string()) } else { Ok(Self { form, ends }) })
    }

    /// The instances to which packets are written.
    ///
    /// # Errors
    /// What is wrong, and the right form.
    pub fn instances(&self) -> Result<&[End], String> {
        let is_twice = |(at, end): (usize, &End)| self.ends[..at].contains(end);
        if self.form == Form::Tzsp {
            return Err("TZSP can be read, not written: write to udp://HOST:PORT".to_string());
        }
        if self.ends.iter().any(|end| end.host.is_empty()) {
            return Err(
                "the host is missing: write udp://HOST:PORT, for instance udp://127.0.0.1:9000".to_string()
            );
        }
        if self.ends.iter().any(|end| end.port == 0) {
            return Err("port 0 is no port of a receiver: write udp://HOST:PORT".to_string());
        }
        if self.ends.len() > INSTANCES_MAX {
            return Err(format!("{} instances: a front end has at most {INSTANCES_MAX}", self.ends.len()));
        }
        match self.ends.iter().enumerate().find(|one| is_twice(*one)) {
            Some((_, end)) => Err(format!("{end} is named twice: name each instance once")),
            None => Ok(&self.ends),
        }
    }

    /// The local address (`None`: the loopback addresses) and port on which packets are received. The system
    /// selects port 0.
    ///
    /// # Errors
    /// What is wrong, and the right form.
    pub fn local(&self) -> Result<(Option<IpAddr>, u16), String> {
        let [end] = &self.ends[..] else {
            return Err("several ports are read with several -r: -r udp://:9000 -r udp://:9001".to_string());
        };
        if end.host.is_empty() {
            return Ok((None, end.port));
        }
        let wrong = "write udp://:PORT for the loopback addresses, or udp://ADDRESS:PORT with an address of this host \
                     (0.0.0.0: all of IPv4; [::]: all)";
        let address = end.host.parse().map_err(|_| wrong.to_string())?;
        Ok((Some(address), end.port))
    }
}

const RIGHT_FORM: &str = "write udp://HOST:PORT, with an IPv6 address in brackets (udp://[::1]:9000), several instances behind commas \
                          (udp://HOST:9000,HOST:9001) or as a range of ports (udp://HOST:9000-9003); to receive, udp://:PORT or \
                          udp://ADDRESS:PORT";

/// `HOST:PORT`, `HOST:PORT-PORT` or `:PORT`.
fn ends(text: &str) -> Option<Vec<End>> {
    let (host, ports) = text.rsplit_once(':')?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = |host: &str| !host.contains(|c: char| ":/[]".contains(c) || c.is_whitespace());
    let host = match bracketed {
        Some(address) if address.contains(':') => address,
        None if is_host(host) => host,
        _ => return None,
    };
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    let ends = (first..=last).map(|port| End { host: host.to_string(), port });
    Some(ends.collect()).filter(|ends: &Vec<End>| !ends.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed() {
        for name in
            ["udp://127.0.0.1:9000", "udp://[::1]:9000,a.example:9001", "tzsp://0.0.0.0:37008", "udp://:9000"]
        {
            assert_eq!(
                Name::of(name).map(|name| name.map(|name| name.to_string())),
                Some(Ok(name.to_string()))
            );
        }
        let range = Name::of("udp://h:9000-9002").and_then(Result::ok).expect("a range");
        assert_eq!(range.to_string(), "udp://h:9000,h:9001,h:9002");
        assert_eq!(Name::of("tcp://h:1"), None);
    }

    #[test]
    fn mistakes_get_the_right_form() {
        for wrong in
            ["udp://", "udp://h", "udp://h:65536", "udp://::1:9", "udp://h:9-8", "udp://a:1,", "tzsp://x"]
        {
            let message = Name::of(wrong).expect("it is a name").expect_err(wrong);
            assert!(message.contains("udp://HOST:PORT"), "{wrong}: {message}");
        }
        let name = |text| Name::of(text).and_then(Result::ok).expect("a name");
        for (wrong, says) in [
            ("tzsp://h:37008", "read, not written"),
            ("udp://:9000", "the host is missing"),
            ("udp://h:0", "port 0"),
            ("udp://h:1,h:1", "named twice"),
            ("udp://h:1-300", "at most 256"),
        ] {
            assert!(name(wrong).instances().expect_err(wrong).contains(says), "{wrong}");
        }
        assert!(name("udp://:1,:2").local().expect_err("two").contains("several -r"));
        assert!(name("udp://host:1").local().expect_err("no address").contains("udp://ADDRESS:PORT"));
        assert_eq!(name("udp://[::]:1").local(), Ok(("::".parse().ok(), 1)));
    }
}
