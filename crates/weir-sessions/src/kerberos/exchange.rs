//! [`KerberosExchange`], and its filter fields.

use super::message::{Kind, Message};
use super::names::{self, cipher_name, error_name};
use crate::session::{Words, session_fields};
use crate::values::{name, owned, owned_texts, text, unsigned};
use crate::{Exchange, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// A request with its response, or one of the two.
pub type KerberosExchange = Exchange<Message>;

impl KerberosExchange {
    /// A value of the request, or else of the response.
    fn told<'a, T>(&'a self, read: impl Fn(&'a Message) -> Option<T>) -> Option<T> {
        self.request.as_ref().and_then(&read).or_else(|| self.response.as_ref().and_then(&read))
    }

    /// The client's name with its realm, as in Zeek: `bob/EXAMPLE.COM`. A TGS request does not contain it.
    fn client_name(&self) -> Option<String> {
        let client = self.told(|message| message.client.as_deref())?;
        let realm = self.told(|message| message.client.as_ref().and(message.client_realm.as_deref()));
        Some(realm.map_or_else(|| client.to_owned(), |realm| format!("{client}/{realm}")))
    }

    /// Whether the request succeeded; none without an answer.
    pub fn is_good(&self) -> Option<bool> {
        self.response.as_ref().map(|response| response.kind != Kind::Error)
    }

    fn error(&self) -> Option<i32> {
        self.response.as_ref().and_then(|response| response.error)
    }
}

impl Session for KerberosExchange {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.time)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn asked<'a>(exchange: &'a KerberosExchange, read: fn(&'a Message) -> Option<Value<'a>>) -> Value<'a> {
    exchange.request.as_ref().and_then(read).unwrap_or(Value::Absent)
}

fn answered<'a>(exchange: &'a KerberosExchange, read: fn(&'a Message) -> Option<Value<'a>>) -> Value<'a> {
    exchange.response.as_ref().and_then(read).unwrap_or(Value::Absent)
}

/// Cipher of the ticket that was issued, or presented to a service.
fn ticket_cipher(exchange: &KerberosExchange) -> Option<i32> {
    let is_shown = |message: &&Message| message.kind == Kind::ApRequest;
    let message = exchange.response.as_ref().or(exchange.request.as_ref().filter(is_shown));
    message.and_then(|message| message.ticket_cipher)
}

fn ciphers(message: &Message) -> Value<'_> {
    owned_texts(message.ciphers.iter().map(|cipher| cipher_name(*cipher).into_owned()).collect())
}

/// Types of pre-authentication data, without negative ones, which are not registered.
fn proofs(message: &Message) -> Value<'_> {
    let proofs: Vec<u64> = message.proofs.iter().filter_map(|proof| u64::try_from(*proof).ok()).collect();
    crate::values::numbers(&proofs)
}

/// All request types.
const REQUEST_TYPES: Words = Words { list: || vec!["AS", "TGS", "AP"], others: &[] };

session_fields! { KerberosExchange;
    "kerberos.request_type" ["kerberos.type"] request_type: Text in REQUEST_TYPES, "Type of the request: AS for a first ticket, TGS for a further ticket, AP to authenticate to a service" => |k| text(k.told(|message| message.kind.name()));
    "kerberos.CNameString" ["kerberos.client"] client: Text, "Client and realm: bob/EXAMPLE.COM" => |k| k.client_name().map_or(Value::Absent, owned);
    "kerberos.SNameString" ["kerberos.service"] service: Text, "Service: krbtgt/EXAMPLE.COM" => |k| text(k.told(|message| message.service.as_deref()));
    "kerberos.success" [] success: Bool, "Whether the request succeeded" => |k| k.is_good().map_or(Value::Absent, Value::Bool);
    "kerberos.error_code" [] error_code: Unsigned, "Number of the error" => |k| unsigned(k.error().and_then(|error| u32::try_from(error).ok()));
    "kerberos.error_msg" ["kerberos.error"] error_msg: Text in names::ERROR_NAMES, "Name of the error: KDC_ERR_C_PRINCIPAL_UNKNOWN" => |k| name(k.error().map(error_name));
    "kerberos.from" [] from: Time, "Requested start time of the ticket" => |k| asked(k, |message| message.from.map(Value::Time));
    "kerberos.till" [] till: Time, "Requested end time of the ticket" => |k| asked(k, |message| message.till.map(Value::Time));
    "kerberos.cipher" [] cipher: Text, "Cipher of the ticket: aes256-cts-hmac-sha1-96, rc4-hmac" => |k| name(ticket_cipher(k).map(cipher_name));
    "kerberos.forwardable" [] forwardable: Bool, "Whether a forwardable ticket is requested" => |k| asked(k, |message| message.is_forwardable().map(Value::Bool));
    "kerberos.renewable" [] renewable: Bool, "Whether a renewable ticket is requested" => |k| asked(k, |message| message.is_renewable().map(Value::Bool));
    // Fields without a column in the log.
    "kerberos.realm" [] _: Text, "Realm of the service" => |k| text(k.told(|message| message.service_realm.as_deref()));
    "kerberos.rtime" [] _: Time, "Requested end of the renewal of the ticket" => |k| asked(k, |message| message.renew_till.map(Value::Time));
    "kerberos.etype" ["kerberos.ciphers"] _: Texts in names::CIPHER_NAMES, "Ciphers that the client supports, the best first" => |k| asked(k, |message| Some(ciphers(message)));
    "kerberos.padata_type" ["kerberos.preauth"] _: Numbers, "Types of pre-authentication: 1 ticket, 2 encrypted timestamp, 16 certificate" => |k| asked(k, |message| Some(proofs(message)));
    "kerberos.reply_cipher" [] _: Text, "Cipher of the answer's part for the client" => |k| answered(k, |message| message.cipher.map(|cipher| name(Some(cipher_name(cipher)))));
    "kerberos.shown_cipher" [] _: Text, "Cipher of the ticket that the client presents" => |k| asked(k, |message| message.ticket_cipher.map(|cipher| name(Some(cipher_name(cipher)))));
    "kerberos.e_text" [] _: Text, "Error text of the server" => |k| answered(k, |message| message.error_text.as_deref().map(|error| text(Some(error))));
    "kerberos.time" ["kerberos.rtt"] _: Interval, "Time from the request to its answer" => |k| k.rtt_ns.map_or(Value::Absent, Value::Interval);
}
