//! KEXINIT, the first message of a key exchange (RFC 4253 §7): the offer of each side, the negotiated
//! algorithms, and HASSH.

use crate::values::readable;
use crate::wire::{Reader, hex};
use md5::{Digest, Md5};

/// Maximum number of names kept of a list; the longest real lists have some forty.
pub const NAMES_MAX: usize = 256;

/// The offer of one side (RFC 4253 §7.1): lists of names in order of preference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KexInit {
    /// Key exchanges, and names of extensions.
    pub kex: Vec<String>,
    /// Host key algorithms.
    pub host_keys: Vec<String>,
    /// Ciphers, client to server and server to client.
    pub ciphers: [Vec<String>; 2],
    /// Message authentication codes, client to server and server to client.
    pub macs: [Vec<String>; 2],
    /// Compression methods, client to server and server to client.
    pub compressions: [Vec<String>; 2],
    /// Number of names that were not kept.
    pub omitted: u64,
}

impl KexInit {
    /// Parses the payload of a KEXINIT after its message number. Lists are read up to the first truncated
    /// one; `None` if that is the first list.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(payload);
        reader.take(16)?; // cookie
        let mut init = Self::default();
        init.kex = init.read_names(&mut reader)?;
        let _ = init.read_rest(&mut reader);
        Some(init)
    }

    fn read_rest(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        self.host_keys = self.read_names(reader)?;
        self.ciphers = [self.read_names(reader)?, self.read_names(reader)?];
        self.macs = [self.read_names(reader)?, self.read_names(reader)?];
        self.compressions = [self.read_names(reader)?, self.read_names(reader)?];
        Some(())
    }

    /// Reads a name-list (RFC 4251 §5).
    fn read_names(&mut self, reader: &mut Reader<'_>) -> Option<Vec<String>> {
        let list = read_string(reader)?;
        if list.is_empty() {
            return Some(Vec::new());
        }
        let mut names = list.split(|byte| *byte == b',');
        let kept = names.by_ref().take(NAMES_MAX).map(|name| readable(name).into_owned());
        let kept = kept.collect();
        self.omitted += names.count() as u64;
        Some(kept)
    }

    /// The text hashed by a client's HASSH (Salesforce, 2018): key exchanges, and the algorithms of the
    /// client's direction.
    pub fn hassh_text(&self) -> String {
        self.hash_text(0)
    }

    /// The text hashed by a server's HASSH.
    pub fn hassh_server_text(&self) -> String {
        self.hash_text(1)
    }

    fn hash_text(&self, direction: usize) -> String {
        let lists =
            [&self.kex, &self.ciphers[direction], &self.macs[direction], &self.compressions[direction]];
        lists.map(|list| list.join(",")).join(";")
    }

    /// Approximate memory, bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let both = [&self.ciphers, &self.macs, &self.compressions].into_iter().flatten();
        let names = both.chain([&self.kex, &self.host_keys]).flatten();
        names.map(|name| size_of::<String>() + name.len()).sum()
    }
}

/// HASSH of a text: MD5, hexadecimal.
pub fn hassh(text: &str) -> String {
    hex(&Md5::digest(text.as_bytes()))
}

/// The negotiated name: the client's first that the server has, too (RFC 4253 §7.1).
pub fn agreed<'a>(client: &'a [String], server: &[String]) -> Option<&'a str> {
    client.iter().find(|name| server.contains(name)).map(String::as_str)
}

/// The negotiated names of both directions: one if they are equal, otherwise both, in Zeek's format.
pub fn agreed_both(client: &[Vec<String>; 2], server: &[Vec<String>; 2]) -> Option<String> {
    let [there, back] = [0, 1].map(|way| agreed(&client[way], &server[way]));
    match (there, back) {
        (Some(there), Some(back)) if there != back => Some(format!("To server: {there}, to client: {back}")),
        (Some(both), _) | (_, Some(both)) => Some(both.to_owned()),
        (None, None) => None,
    }
}

/// Reads a string (RFC 4251 §5).
pub(super) fn read_string<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(reader.array()?);
    reader.take(usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn lists_are_read_up_to_the_one_that_is_cut() {
        let mut payload = vec![9; 16];
        for list in ["k1,k2", "h", "c1", "c2", "m1", "", "none", "zlib,none"] {
            payload.extend((list.len() as u32).to_be_bytes());
            payload.extend(list.as_bytes());
        }
        let init = KexInit::parse(&payload).expect("whole");
        assert_eq!(init.kex, names(&["k1", "k2"]));
        assert_eq!(init.macs, [names(&["m1"]), vec![]]);
        assert_eq!(
            (&*init.hassh_text(), &*init.hassh_server_text()),
            ("k1,k2;c1;m1;none", "k1,k2;c2;;zlib,none")
        );
        let cut = KexInit::parse(&payload[..29]).expect("the first list");
        assert_eq!((cut.kex.len(), cut.host_keys.len(), cut.ciphers[0].len()), (2, 0, 0));
        assert_eq!(KexInit::parse(&payload[..24]), None);
    }

    #[test]
    fn the_clients_order_decides() {
        let (client, server) = (names(&["a", "b", "c"]), names(&["c", "b"]));
        assert_eq!(agreed(&client, &server), Some("b"));
        assert_eq!(agreed(&client, &names(&["x"])), None);
        let [there, back] = [names(&["a"]), names(&["b"])];
        let differ = agreed_both(&[there.clone(), back.clone()], &[there, back]);
        assert_eq!(differ.as_deref(), Some("To server: a, to client: b"));
    }

    #[test]
    fn names_are_bounded() {
        let list = "x,".repeat(1000) + "x";
        let payload = [&[0; 16][..], &(list.len() as u32).to_be_bytes(), list.as_bytes()].concat();
        let init = KexInit::parse(&payload).expect("whole");
        assert_eq!((init.kex.len(), init.omitted), (NAMES_MAX, 1001 - NAMES_MAX as u64));
    }
}
