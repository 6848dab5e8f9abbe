//! Distinguished names as text (RFC 4514), in the order and with the short names of Zeek's logs.
//!
//! Unlike Zeek, non-ASCII characters are not escaped: escaping is up to the sink that prints them.

use x509_parser::asn1_rs::Tag;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// `CN=a.example,OU=A+UID=1,C=XX`: sequence and sets are written in reverse order.
pub(super) fn distinguished_name(name: &X509Name<'_>) -> String {
    let joined = |parts: Vec<String>, separator| parts.into_iter().rev().collect::<Vec<_>>().join(separator);
    let sets = name.iter_rdn().map(|set| joined(set.iter().map(attribute).collect(), "+"));
    joined(sets.collect(), ",")
}

/// The common name (2.5.4.3); of several, the last of the sequence.
pub(super) fn common_name(name: &X509Name<'_>) -> Option<String> {
    name.iter_common_name().last().map(text)
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let oid = attribute.attr_type().to_id_string();
    let short = short_name(&oid).unwrap_or(&oid);
    format!("{short}={}", escaped(&text(attribute)))
}

/// OpenSSL's short name of an attribute type (RFC 4519).
fn short_name(oid: &str) -> Option<&'static str> {
    Some(match oid {
        "2.5.4.3" => "CN",
        "2.5.4.4" => "SN",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "street",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.12" => "title",
        "2.5.4.13" => "description",
        "2.5.4.15" => "businessCategory",
        "2.5.4.17" => "postalCode",
        "2.5.4.41" => "name",
        "2.5.4.42" => "GN",
        "2.5.4.43" => "initials",
        "2.5.4.46" => "dnQualifier",
        "2.5.4.97" => "organizationIdentifier",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        "1.2.840.113549.1.9.1" => "emailAddress",
        "1.2.840.113549.1.9.2" => "unstructuredName",
        "1.3.6.1.4.1.311.60.2.1.1" => "jurisdictionL",
        "1.3.6.1.4.1.311.60.2.1.2" => "jurisdictionST",
        "1.3.6.1.4.1.311.60.2.1.3" => "jurisdictionC",
        _ => return None,
    })
}

/// Decodes a value by its string type (X.680 §41); undecodable bytes are replaced.
fn text(attribute: &AttributeTypeAndValue<'_>) -> String {
    let bytes = attribute.as_slice();
    match attribute.attr_value().tag() {
        Tag::BmpString => {
            let units: Vec<u16> =
                bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
            String::from_utf16_lossy(&units)
        }
        // In practice T.61 strings in certificates are Latin 1.
        Tag::T61String => bytes.iter().copied().map(char::from).collect(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Escapes a value (RFC 4514 §2.4).
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (at, letter) in value.chars().enumerate() {
        let at_end = at == 0 || at == last;
        let special = matches!(letter, ',' | '+' | '"' | '\\' | '<' | '>' | ';');
        if special || (letter == ' ' && at_end) || (letter == '#' && at == 0) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_separators_and_outer_spaces() {
        assert_eq!(escaped("A, Inc."), "A\\, Inc.");
        assert_eq!(escaped(" a b "), "\\ a b\\ ");
        assert_eq!(escaped("#1 #2"), "\\#1 #2");
        assert_eq!(escaped("Böhmen"), "Böhmen");
        assert_eq!(escaped(""), "");
    }
}
