//! Names of hosts, from files and from DNS answers in the captures. Nothing is looked up on the network.

use crate::messages::failure::Failure;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use weir::packet::{Cell, Column, Row, ValueType};

/// The word for the system's file of hosts, and the word for DNS answers.
const HOSTS: &str = "hosts";
const DNS: &str = "dns";
/// The system's file of hosts.
const HOSTS_FILE: &str = "/etc/hosts";

/// Bytes of an entry: the table while it grows, and the name.
const ENTRY_BYTES: usize = 3 * size_of::<(IpAddr, String)>() + NAME_BYTES_MAX;

/// Longer names are left out; DNS has none (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// The columns with addresses, and the columns with their names.
pub const NAMED: &[(&str, &str)] =
    &[("id.orig_h", "orig_name"), ("id.resp_h", "resp_name"), ("src_h", "src_name"), ("dst_h", "dst_name")];

/// The names of hosts by their addresses.
#[derive(Debug, Default)]
pub struct HostNames {
    names: HashMap<IpAddr, String>,
    entries_max: usize,
    /// Number of names that did not fit.
    beyond: u64,
    /// DNS answers add names.
    pub learns: bool,
    /// Indices of the columns with addresses.
    places: Vec<usize>,
}

impl HostNames {
    /// The names from these sources: files in the form of hosts(5), `hosts` for the system's, `dns` for DNS
    /// answers. `None` without sources.
    ///
    /// # Errors
    /// A file cannot be read, or a line is wrong.
    pub fn of(sources: &[String], memory_max: usize) -> Result<Option<Self>, Failure> {
        if sources.is_empty() {
            return Ok(None);
        }
        let mut all = Self { entries_max: memory_max / ENTRY_BYTES, ..Self::default() };
        for source in sources {
            match source.as_str() {
                DNS => all.learns = true,
                HOSTS => all.read(Path::new(HOSTS_FILE))?,
                file => all.read(Path::new(file))?,
            }
        }
        Ok(Some(all))
    }

    fn read(&mut self, path: &Path) -> Result<(), Failure> {
        let text =
            std::fs::read_to_string(path).map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(address) = words.next() else { continue };
            let wrong = |what: &str| {
                Failure::new(format!("{}:{}: {what}: write `192.0.2.1 name`", path.display(), number + 1))
            };
            // Addresses of an interface (`fe80::1%lo0`) name no host.
            let Ok(address) = address.parse() else {
                if address.contains('%') {
                    continue;
                }
                return Err(wrong(&format!("`{address}` is no address")));
            };
            let name = words.next().ok_or_else(|| wrong("there is no name"))?;
            self.add(address, name);
        }
        Ok(())
    }

    fn add(&mut self, address: IpAddr, name: &str) {
        // What the user's files say is not replaced by what the traffic says.
        if name.len() > NAME_BYTES_MAX || self.names.contains_key(&address) {
            return;
        }
        if self.names.len() >= self.entries_max {
            self.beyond += 1;
            return;
        }
        self.names.insert(address, name.to_string());
    }

    /// Reports the names that did not fit.
    pub fn report(&self) {
        if self.beyond > 0 {
            note!("weir: memory was short (--memory): {} names of hosts were not kept", self.beyond);
        }
    }

    /// Learns the names in a row of `dns.log`; `columns` are its columns.
    pub fn learn(&mut self, columns: &[Column], row: Row<'_>) {
        let at = |name: &str| columns.iter().position(|column| column.name == name);
        let cell = |name: &str| at(name).map_or(Cell::Absent, |at| row.cell(at));
        if let (Cell::Text(query), Cell::Texts(answers)) = (cell("query"), cell("answers")) {
            for address in answers.iter().filter_map(|answer| answer.parse().ok()) {
                self.add(address, query);
            }
        }
    }

    /// The indexes of the columns with addresses that have names.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// The columns of rows with names: after these columns, a name for each address of an end.
    pub fn columns(&mut self, columns: &[Column]) -> Vec<Column> {
        let at = |name: &str| columns.iter().position(|column| column.name == name);
        let named: Vec<(usize, &str)> =
            NAMED.iter().filter_map(|(of, name)| Some((at(of)?, *name))).collect();
        self.places = named.iter().map(|(at, _)| *at).collect();
        let more = named.iter().map(|(_, name)| Column::new(name, ValueType::Text, "name of the host"));
        columns.iter().cloned().chain(more).collect()
    }

    /// The names of a row's addresses, which follow its values.
    pub fn of_row(&self, row: Row<'_>) -> impl Iterator<Item = Cell<'_>> {
        self.places.iter().map(move |&place| match row.cell(place) {
            Cell::Address(address) => self.names.get(&address).map_or(Cell::Absent, |name| Cell::Text(name)),
            _ => Cell::Absent,
        })
    }
}
