//! Certificates in handshakes (RFC 5280), as in Zeek's `x509.log`: all certificates of the chains that
//! servers and clients send in TLS up to 1.2 and DTLS. Malformed certificates have no row.

use crate::dtls::DtlsHandshake;
use crate::session::session_fields;
use crate::tls::{Certificate, CertificateChain, TlsHandshake};
use crate::values::{owned_texts, text, texts, unsigned};
use crate::{PartLog, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// The log, for the registry.
pub const LOG: PartLog = PartLog {
    name: "x509",
    doc: "Certificates in handshakes (RFC 5280), each once",
    head: &["ts"],
    known_by: "fingerprint",
    of: &[("tls", of_tls), ("dtls", of_dtls)],
    brief: &["ts", "certificate.subject", "certificate.issuer", "certificate.not_valid_after", "san.dns"],
    fields: FIELDS,
};

/// A certificate, and the side that sent it as its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCertificate {
    /// Contents.
    pub certificate: Certificate,
    /// Whether it is the server's own.
    pub is_server: bool,
    /// Whether it is the client's own.
    pub is_client: bool,
}

session_fields! { ShownCertificate;
    "x509.fingerprint" [] fingerprint: Text, "SHA-256, hexadecimal, as in the lists of ssl.log" => |c| text(Some(&c.certificate.sha256));
    "x509.version" [] "certificate.version": Unsigned, "Version: 1 to 3" => |c| unsigned(c.certificate.version);
    "x509.serial" [] "certificate.serial": Text, "Serial number, hexadecimal" => |c| text(Some(&c.certificate.serial));
    "x509.subject" [] "certificate.subject": Text, "Subject" => |c| text(Some(&c.certificate.subject));
    "x509.issuer" [] "certificate.issuer": Text, "Issuer" => |c| text(Some(&c.certificate.issuer));
    "x509.not_before" [] "certificate.not_valid_before": Time, "Start of validity" => |c| Value::Time(c.certificate.not_before);
    "x509.not_after" [] "certificate.not_valid_after": Time, "End of validity" => |c| Value::Time(c.certificate.not_after);
    "x509.key_alg" [] "certificate.key_alg": Text, "Algorithm of the key" => |c| text(Some(&c.certificate.key_algorithm));
    "x509.sig_alg" [] "certificate.sig_alg": Text, "Algorithm of the signature" => |c| text(Some(&c.certificate.signature_algorithm));
    "x509.key_type" [] "certificate.key_type": Text, "Type of the key: rsa, ecdsa …" => |c| text(Some(&c.certificate.key_type));
    "x509.key_length" [] "certificate.key_length": Unsigned, "Length of the key, bits" => |c| Value::Unsigned(c.certificate.key_bits as u64);
    "x509.exponent" [] "certificate.exponent": Text, "Exponent of an RSA key" => |c| text(c.certificate.exponent.as_deref());
    "x509.curve" [] "certificate.curve": Text, "Named curve of the key" => |c| text(c.certificate.curve.as_deref());
    "x509.san.dns" [] "san.dns": Texts, "DNS names of the subject" => |c| texts(&c.certificate.san_dns);
    "x509.san.uri" [] "san.uri": Texts, "URIs of the subject" => |c| texts(&c.certificate.san_uris);
    "x509.san.email" [] "san.email": Texts, "Mail addresses of the subject" => |c| texts(&c.certificate.san_emails);
    "x509.san.ip" [] "san.ip": Texts, "Addresses of the subject" => |c| owned_texts(c.certificate.san_ips.iter().map(ToString::to_string).collect());
    "x509.basic_constraints.ca" [] "basic_constraints.ca": Bool, "Whether the certificate may issue others, if stated" => |c| c.certificate.is_ca.map_or(Value::Absent, Value::Bool);
    "x509.basic_constraints.path_len" [] "basic_constraints.path_len": Unsigned, "Maximum number of intermediate certificates below this one" => |c| unsigned(c.certificate.path_length);
    "x509.host_cert" [] host_cert: Bool, "Whether the certificate is the server's own" => |c| Value::Bool(c.is_server);
    "x509.client_cert" [] client_cert: Bool, "Whether the certificate is the client's own" => |c| Value::Bool(c.is_client);
}

impl Session for ShownCertificate {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    /// The time is that of the handshake.
    fn time(&self) -> Option<Timestamp> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn of_tls(session: &dyn Session) -> Vec<Box<dyn Session>> {
    session.as_any().downcast_ref().map_or(vec![], of_handshake)
}

fn of_dtls(session: &dyn Session) -> Vec<Box<dyn Session>> {
    session.as_any().downcast_ref::<DtlsHandshake>().map_or(vec![], |dtls| of_handshake(&dtls.handshake))
}

fn of_handshake(handshake: &TlsHandshake) -> Vec<Box<dyn Session>> {
    let of_chain = |chain: &CertificateChain, is_server: bool| -> Vec<Box<dyn Session>> {
        let numbered = chain.certificates().iter().enumerate();
        let shown =
            numbered.filter(|(_, certificate)| certificate.is_well_formed).map(|(place, certificate)| {
                let is_own = place == 0;
                ShownCertificate {
                    certificate: certificate.clone(),
                    is_server: is_own && is_server,
                    is_client: is_own && !is_server,
                }
            });
        shown.map(|shown| Box::new(shown) as Box<dyn Session>).collect()
    };
    let mut all = of_chain(&handshake.server_certificates, true);
    all.extend(of_chain(&handshake.client_certificates, false));
    all
}
