//! Variables of rules: groups of addresses and of ports by name.

use rustc_hash::FxHashMap;

/// Groups by name, without the dollar sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variables {
    addresses: FxHashMap<String, String>,
    ports: FxHashMap<String, String>,
}

/// Groups of addresses that rules expect: the site is that of private addresses (RFC 1918) until somebody
/// says otherwise.
const ADDRESSES: &[(&str, &str)] = &[
    ("HOME_NET", "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]"),
    ("EXTERNAL_NET", "!$HOME_NET"),
    ("HTTP_SERVERS", "$HOME_NET"),
    ("SMTP_SERVERS", "$HOME_NET"),
    ("SQL_SERVERS", "$HOME_NET"),
    ("DNS_SERVERS", "$HOME_NET"),
    ("TELNET_SERVERS", "$HOME_NET"),
    ("AIM_SERVERS", "$EXTERNAL_NET"),
    ("DC_SERVERS", "$HOME_NET"),
    ("DNP3_SERVER", "$HOME_NET"),
    ("DNP3_CLIENT", "$HOME_NET"),
    ("MODBUS_CLIENT", "$HOME_NET"),
    ("MODBUS_SERVER", "$HOME_NET"),
    ("ENIP_CLIENT", "$HOME_NET"),
    ("ENIP_SERVER", "$HOME_NET"),
];

/// Groups of ports that rules expect.
const PORTS: &[(&str, &str)] = &[
    ("HTTP_PORTS", "80"),
    ("SHELLCODE_PORTS", "!80"),
    ("ORACLE_PORTS", "1521"),
    ("SSH_PORTS", "22"),
    ("DNP3_PORTS", "20000"),
    ("MODBUS_PORTS", "502"),
    ("FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]"),
    ("FTP_PORTS", "21"),
    ("GENEVE_PORTS", "6081"),
    ("VXLAN_PORTS", "4789"),
    ("TEREDO_PORTS", "3544"),
    ("SIP_PORTS", "[5060, 5061]"),
];

impl Default for Variables {
    fn default() -> Self {
        let of = |all: &[(&str, &str)]| {
            all.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        Self { addresses: of(ADDRESSES), ports: of(PORTS) }
    }
}

impl Variables {
    /// Sets a group of addresses, in the form of rules.
    pub fn set_addresses(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.addresses.insert(name.into(), value.into());
    }

    /// Sets a group of ports, in the form of rules.
    pub fn set_ports(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.ports.insert(name.into(), value.into());
    }

    /// Name and value of a group of addresses.
    pub(crate) fn addresses(&self, name: &str) -> Result<(&str, &str), String> {
        find(&self.addresses, name, "addresses")
    }

    /// Name and value of a group of ports.
    pub(crate) fn ports(&self, name: &str) -> Result<(&str, &str), String> {
        find(&self.ports, name, "ports")
    }
}

fn find<'v>(
    all: &'v FxHashMap<String, String>,
    name: &str,
    what: &str,
) -> Result<(&'v str, &'v str), String> {
    all.get_key_value(name).map(|(name, value)| (name.as_str(), value.as_str())).ok_or_else(|| {
        let near = weir_lang::diag::suggest(name, all.keys().map(String::as_str));
        let near = near.map_or_else(String::new, |near| format!(": is `${near}` meant?"));
        format!("there is no variable `${name}` of {what}{near}")
    })
}
