//! Names of DNS numbers, as in Zeek's `dns.log`; numbers without a name also have Zeek's format.

use crate::Words;
use std::borrow::Cow;

/// Types of records and questions (IANA "Resource Record (RR) TYPEs"), in numerical order.
const TYPES: &[(u16, &str)] = &[
    (1, "A"),
    (2, "NS"),
    (3, "MD"),
    (4, "MF"),
    (5, "CNAME"),
    (6, "SOA"),
    (7, "MB"),
    (8, "MG"),
    (9, "MR"),
    (10, "NULL"),
    (11, "WKS"),
    (12, "PTR"),
    (13, "HINFO"),
    (14, "MINFO"),
    (15, "MX"),
    (16, "TXT"),
    (17, "RP"),
    (18, "AFSDB"),
    (19, "X25"),
    (20, "ISDN"),
    (21, "RT"),
    (22, "NSAP"),
    (23, "NSAP-PTR"),
    (24, "SIG"),
    (25, "KEY"),
    (26, "PX"),
    (27, "GPOS"),
    (28, "AAAA"),
    (29, "LOC"),
    (30, "NXT"),
    (31, "EID"),
    (32, "NIMLOC"),
    (33, "SRV"),
    (34, "ATMA"),
    (35, "NAPTR"),
    (36, "KX"),
    (37, "CERT"),
    (38, "A6"),
    (39, "DNAME"),
    (40, "SINK"),
    (41, "OPT"),
    (42, "APL"),
    (43, "DS"),
    (44, "SSHFP"),
    (45, "IPSECKEY"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (49, "DHCID"),
    (50, "NSEC3"),
    (51, "NSEC3PARAM"),
    (52, "TLSA"),
    (53, "SMIMEA"),
    (55, "HIP"),
    (56, "NINFO"),
    (57, "RKEY"),
    (58, "TALINK"),
    (59, "CDS"),
    (60, "CDNSKEY"),
    (61, "OPENPGPKEY"),
    (62, "CSYNC"),
    (63, "ZONEMD"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (99, "SPF"),
    (100, "UINFO"),
    (101, "UID"),
    (102, "GID"),
    (103, "UNSPEC"),
    (104, "NID"),
    (105, "L32"),
    (106, "L64"),
    (107, "LP"),
    (108, "EUI48"),
    (109, "EUI64"),
    (249, "TKEY"),
    (250, "TSIG"),
    (251, "IXFR"),
    (252, "AXFR"),
    (253, "MAILB"),
    (254, "MAILA"),
    (255, "*"),
    (256, "URI"),
    (257, "CAA"),
    (32768, "TA"),
    (32769, "DLV"),
    (65281, "WINS"),
    (65282, "WINS-R"),
    (65422, "XPF"),
    (65521, "INTEGRITY"),
];

/// Response codes (IANA "DNS RCODEs"); those above 15 include the upper bits of EDNS.
const RCODES: &[(u16, &str)] = &[
    (0, "NOERROR"),
    (1, "FORMERR"),
    (2, "SERVFAIL"),
    (3, "NXDOMAIN"),
    (4, "NOTIMP"),
    (5, "REFUSED"),
    (6, "YXDOMAIN"),
    (7, "YXRRSET"),
    (8, "NXRRSet"),
    (9, "NOTAUTH"),
    (10, "NOTZONE"),
    (11, "unassigned-11"),
    (12, "unassigned-12"),
    (13, "unassigned-13"),
    (14, "unassigned-14"),
    (15, "unassigned-15"),
    (16, "BADVERS"),
    (17, "BADKEY"),
    (18, "BADTIME"),
    (19, "BADMODE"),
    (20, "BADNAME"),
    (21, "BADALG"),
    (22, "BADTRUNC"),
    (23, "BADCOOKIE"),
];

const CLASSES: &[(u16, &str)] =
    &[(1, "C_INTERNET"), (2, "C_CSNET"), (3, "C_CHAOS"), (4, "C_HESIOD"), (254, "C_NONE"), (255, "C_ANY")];

const OPCODES: &[(u16, &str)] =
    &[(0, "query"), (1, "iquery"), (2, "server-status"), (4, "notify"), (5, "dynamic-update"), (6, "dso")];

fn named(table: &'static [(u16, &'static str)], number: u16) -> Option<&'static str> {
    table.binary_search_by_key(&number, |entry| entry.0).ok().map(|at| table[at].1)
}

fn named_or(table: &'static [(u16, &'static str)], prefix: &str, number: u16) -> Cow<'static, str> {
    named(table, number).map_or_else(|| format!("{prefix}-{number}").into(), Cow::Borrowed)
}

/// Whether a record type is assigned.
pub(super) fn is_assigned(kind: u16) -> bool {
    named(TYPES, kind).is_some()
}

/// The name of a record type: `AAAA`, `query-1234`.
pub fn kind(number: u16) -> Cow<'static, str> {
    named_or(TYPES, "query", number)
}

/// The name of a class: `C_INTERNET`, `qclass-32769`.
pub fn class(number: u16) -> Cow<'static, str> {
    named_or(CLASSES, "qclass", number)
}

/// The name of a response code: `NXDOMAIN`.
pub fn rcode(number: u16) -> Cow<'static, str> {
    named_or(RCODES, "rcode", number)
}

/// The name of an operation: `query`.
pub fn opcode(number: u8) -> Cow<'static, str> {
    named_or(OPCODES, "opcode", number.into())
}

/// All names of types, including NetBIOS.
pub(super) const TYPE_NAMES: Words =
    Words { list: || of(TYPES).chain(["NB", "NBSTAT"]).collect(), others: &["query-"] };
/// All names of classes.
pub(super) const CLASS_NAMES: Words = Words { list: || of(CLASSES).collect(), others: &["qclass-"] };
/// All names of response codes.
pub(super) const RCODE_NAMES: Words = Words { list: || of(RCODES).collect(), others: &["rcode-"] };
/// All names of operations.
pub(super) const OPCODE_NAMES: Words = Words { list: || of(OPCODES).collect(), others: &["opcode-"] };

fn of(table: &'static [(u16, &'static str)]) -> impl Iterator<Item = &'static str> {
    table.iter().map(|entry| entry.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_order() {
        for table in [TYPES, RCODES, CLASSES, OPCODES] {
            assert!(table.is_sorted_by_key(|entry| entry.0));
        }
    }

    #[test]
    fn numbers_without_a_name_are_told_as_zeek_does() {
        assert_eq!(kind(28), "AAAA");
        assert_eq!(kind(507), "query-507");
        assert_eq!(class(0x8001), "qclass-32769");
        assert_eq!((rcode(3), rcode(99)), ("NXDOMAIN".into(), "rcode-99".into()));
        assert_eq!(opcode(5), "dynamic-update");
    }
}
