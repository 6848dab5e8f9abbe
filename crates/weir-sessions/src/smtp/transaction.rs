//! [`SmtpTransaction`]: a mail with its envelope, or a connection without mail; and its fields.

use super::mail::MailHeader;
use super::parts::MailFile;
use crate::files::File;
use crate::session::session_fields;
use crate::values::{owned_texts, text, texts, unsigned};
use crate::{Direction, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// One mail transaction (RFC 5321 §3.3), as far as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmtpTransaction {
    /// Capture time of its first command.
    pub time: Timestamp,
    /// Number of the transaction in its connection, from 1.
    pub depth: u32,
    /// Direction of the client: the originator of the connection, as a rule.
    pub client: Direction,
    /// The client's name for itself: argument of HELO, EHLO or LHLO.
    pub helo: Option<String>,
    /// The address of MAIL; `<>` if it is empty.
    pub mail_from: Option<String>,
    /// The addresses of RCPT.
    pub recipients: Vec<String>,
    /// Header fields of the mail.
    pub header: MailHeader,
    /// Length of the mail, including the line that ends it, bytes.
    pub mail_bytes: u64,
    /// Parts that are not multiparts, 64 at most.
    pub files: Vec<MailFile>,
    /// Number of parts, multiparts included.
    pub parts: u64,
    /// Number of parts in earlier mails of the connection.
    pub parts_before: u64,
    /// Code and text of the last reply.
    pub last_reply: Option<(u16, String)>,
    /// Whether the connection switched to TLS.
    pub is_tls: bool,
    /// The server's greeting.
    pub greeting: Option<String>,
    /// Verbs of the commands, without repetitions, in order of first use.
    pub commands: Vec<String>,
    /// Mechanism of AUTH (RFC 4954).
    pub auth_mechanism: Option<String>,
    /// User name, if the mechanism sends it in clear.
    pub auth_user: Option<String>,
    /// Whether bytes of the transaction are missing.
    pub has_gap: bool,
    /// Whether the client did anything worth reporting.
    pub(super) is_active: bool,
}

impl SmtpTransaction {
    pub(super) fn new(depth: u32, client: Direction) -> Self {
        Self {
            time: Timestamp(0),
            depth,
            client,
            helo: None,
            mail_from: None,
            recipients: Vec::new(),
            header: MailHeader::default(),
            mail_bytes: 0,
            files: Vec::new(),
            parts: 0,
            parts_before: 0,
            last_reply: None,
            is_tls: false,
            greeting: None,
            commands: Vec::new(),
            auth_mechanism: None,
            auth_user: None,
            has_gap: false,
            is_active: false,
        }
    }

    /// Starts the next transaction with the state it inherits.
    pub(super) fn next(&self) -> Self {
        Self {
            helo: self.helo.clone(),
            greeting: self.greeting.clone(),
            auth_mechanism: self.auth_mechanism.clone(),
            auth_user: self.auth_user.clone(),
            parts_before: self.parts_before.saturating_add(self.parts),
            ..Self::new(self.depth.saturating_add(1), self.client)
        }
    }
}

session_fields! { SmtpTransaction;
    // Columns of the log.
    "smtp.trans_depth" [] trans_depth: Unsigned, "Number of the mail in its connection, from 1" => |s| Value::Unsigned(s.depth.into());
    "smtp.helo" [] helo: Text, "Name that the client states for itself (HELO, EHLO, LHLO)" => |s| text(s.helo.as_deref());
    "smtp.mail_from" ["smtp.mailfrom"] mailfrom: Text, "Address of the sender in the envelope" => |s| text(s.mail_from.as_deref());
    "smtp.rcpt_to" ["smtp.rcptto"] rcptto: Texts, "Addresses of the recipients in the envelope" => |s| texts(&s.recipients);
    "imf.date" ["smtp.date"] date: Text, "Date of the mail" => |s| text(s.header.date.as_deref());
    "imf.from" ["smtp.from"] from: Text, "From of the mail, unchanged" => |s| text(s.header.from.as_deref());
    "imf.to" ["smtp.to"] to: Texts, "Addresses of To" => |s| texts(&s.header.to);
    "imf.cc" ["smtp.cc"] cc: Texts, "Addresses of Cc" => |s| texts(&s.header.cc);
    "imf.reply_to" ["smtp.reply_to"] reply_to: Text, "Reply-To of the mail" => |s| text(s.header.reply_to.as_deref());
    "imf.message_id" ["smtp.msg_id"] msg_id: Text, "Message-ID of the mail" => |s| text(s.header.message_id.as_deref());
    "imf.in_reply_to" ["smtp.in_reply_to"] in_reply_to: Text, "In-Reply-To of the mail" => |s| text(s.header.in_reply_to.as_deref());
    "imf.subject" ["smtp.subject"] subject: Text, "Subject of the mail; encoded words are not decoded" => |s| text(s.header.subject.as_deref());
    "smtp.x_originating_ip" [] x_originating_ip: Address, "X-Originating-IP of the mail" => |s| s.header.x_originating_ip.map_or(Value::Absent, Value::Address);
    "smtp.first_received" [] first_received: Text, "The last Received field, which the first server wrote" => |s| text(s.header.first_received.as_deref());
    "smtp.second_received" [] second_received: Text, "The second to last Received field" => |s| text(s.header.second_received.as_deref());
    "smtp.last_reply" [] last_reply: Text, "The last reply of the server: code and text" => last_reply;
    "smtp.path" [] path: Texts, "Addresses in Received fields, the latest server first; in rows after those of responder and originator" => |s| texts(&s.header.path);
    "imf.user_agent" ["smtp.user_agent"] user_agent: Text, "Program that wrote the mail" => |s| text(s.header.user_agent.as_deref());
    "smtp.tls" [] tls: Bool, "Whether the connection switched to TLS (STARTTLS)" => |s| Value::Bool(s.is_tls);
    "smtp.files" [] fuids: Numbers, "Numbers of the mail's parts as files; in rows the identifiers in files.log" => |s| Value::Numbers(s.files.iter().map(|file| number(s, file)).collect());
    // Not in the log.
    "smtp.parts" [] _: Unsigned, "Number of parts of the mail, including multiparts" => |s| Value::Unsigned(s.parts);
    "smtp.attachments" ["smtp.filenames"] _: Texts, "File names of the mail's parts" => |s| owned_texts(s.files.iter().filter_map(|file| file.name.clone()).collect());
    "smtp.response.code" ["smtp.reply_code"] _: Unsigned, "Code of the last reply" => |s| unsigned(s.last_reply.as_ref().map(|reply| reply.0));
    "smtp.req.command" ["smtp.commands"] _: Texts, "Verbs of the commands, in order, without repetitions" => |s| texts(&s.commands);
    "smtp.greeting" [] _: Text, "The server's greeting" => |s| text(s.greeting.as_deref());
    "smtp.auth.mechanism" [] _: Text, "Mechanism of AUTH" => |s| text(s.auth_mechanism.as_deref());
    "smtp.auth.username" ["smtp.user"] _: Text, "User name of AUTH, if the mechanism sends it in clear" => |s| text(s.auth_user.as_deref());
    "imf.content.type" ["smtp.content_type"] _: Text, "Content-Type of the mail" => |s| text(s.header.content_type.as_deref());
    "smtp.mail_bytes" [] _: Unsigned, "Size of the mail, including the line that ends it, bytes" => |s| Value::Unsigned(s.mail_bytes);
    "smtp.has_gap" [] _: Bool, "Whether bytes of the transaction are missing" => |s| Value::Bool(s.has_gap);
}

/// Number of a part among the files of its connection. STARTTLS would restart the count, but the mails after
/// it are encrypted.
fn number(transaction: &SmtpTransaction, file: &MailFile) -> u64 {
    transaction.parts_before.saturating_add(file.part)
}

/// The parts of a mail as rows of `files.log`. Their depth is Zeek's: the number of parts in the connection
/// so far.
pub(crate) fn files(session: &dyn Session) -> Vec<Box<dyn Session>> {
    let Some(mail) = session.as_any().downcast_ref::<SmtpTransaction>() else { return vec![] };
    let file = |part: &MailFile| File {
        number: number(mail, part),
        source: "SMTP",
        depth: number(mail, part),
        media_type: part.media_type,
        name: part.name.clone(),
        time: part.times.map(|(first, _)| first),
        duration_ns: part.times.and_then(|(first, last)| u64::try_from(last.0.saturating_sub(first.0)).ok()),
        is_from_originator: mail.client == Direction::Originator,
        seen_bytes: part.seen_bytes,
        total_bytes: None,
        missing_bytes: part.missing_bytes,
        ranges: None,
        other_name: None,
        content: part.content.clone(),
        executable: part.executable.clone(),
    };
    mail.files.iter().map(|part| Box::new(file(part)) as Box<dyn Session>).collect()
}

fn last_reply(transaction: &SmtpTransaction) -> Value<'_> {
    transaction.last_reply.as_ref().map_or(Value::Absent, |(code, text)| {
        Value::Text(format!("{code} {text}").trim_end().to_owned().into())
    })
}

impl Session for SmtpTransaction {
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
