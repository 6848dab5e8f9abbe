//! [`FtpExchange`]: a command with its reply, and its filter fields.

use super::address::{DataChannel, Transport};
use crate::pairing::Held;
use crate::session::session_fields;
use crate::values::{collect_numbers, owned_texts, text, unsigned};
use crate::{Direction, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// Maximum number of preliminary replies kept per command.
pub const PRELIMINARY_MAX: usize = 8;

/// A command with its final reply, or one of them if the other was not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FtpExchange {
    /// Time of the command, or else of the reply.
    pub time: Timestamp,
    /// The client's direction: usually the originator of the connection.
    pub client: Direction,
    /// The last user name (USER).
    pub user: Option<String>,
    /// Whether a password was given (PASS). It is not kept.
    pub has_password: bool,
    /// Verb of the command, in upper case.
    pub command: Option<String>,
    /// Argument of the command; `<hidden>` for PASS.
    pub argument: Option<String>,
    /// File size, bytes: from the reply to SIZE, or from the start of a transfer.
    pub file_bytes: Option<u64>,
    /// Code of the final reply.
    pub reply_code: Option<u16>,
    /// The last line of the final reply, without its code.
    pub reply_text: Option<String>,
    /// Code and text of the preliminary replies (100 to 199), at most [`PRELIMINARY_MAX`].
    pub preliminary: Vec<(u16, String)>,
    /// The negotiated data connection.
    pub data_channel: Option<DataChannel>,
    /// Time from the command to the reply, nanoseconds.
    pub wait_ns: Option<u64>,
}

impl Held for FtpExchange {
    fn held_bytes(&self) -> usize {
        let texts = [&self.user, &self.command, &self.argument, &self.reply_text];
        let preliminary =
            self.preliminary.iter().map(|(_, text)| size_of::<(u16, String)>() + text.capacity());
        let texts = texts.into_iter().flatten().map(String::capacity);
        size_of::<Self>() + texts.sum::<usize>() + preliminary.sum::<usize>()
    }
}

session_fields! { FtpExchange;
    // Columns of the log.
    "ftp.user" [] user: Text, "User name of the last USER" => |f| text(f.user.as_deref());
    "ftp.password" [] password: Text, "`<hidden>` if a password was sent" => |f| text(f.has_password.then_some("<hidden>"));
    "ftp.request.command" ["ftp.command"] command: Text, "Command verb, in upper case" => |f| text(f.command.as_deref());
    "ftp.request.arg" ["ftp.arg"] arg: Text, "Argument of the command; `<hidden>` for PASS" => |f| text(f.argument.as_deref());
    "ftp.mime_type" [] mime_type: Text, "Media type of the file; always empty" => |_| Value::Absent;
    "ftp.file_size" [] file_size: Unsigned, "Size of the file according to the server, bytes" => |f| unsigned(f.file_bytes);
    "ftp.response.code" ["ftp.reply_code"] reply_code: Unsigned, "Code of the final reply" => |f| unsigned(f.reply_code);
    "ftp.response.arg" ["ftp.reply_msg"] reply_msg: Text, "Last line of the final reply, without its code" => |f| text(f.reply_text.as_deref());
    "ftp.data_channel.passive" [] "data_channel.passive": Bool, "Whether the client opens the data connection (PASV, EPSV)" => |f| f.data_channel.map_or(Value::Absent, |channel| Value::Bool(channel.transport == Transport::Passive));
    "ftp.data_channel.orig_h" [] "data_channel.orig_h": Address, "Address of the side that opens the data connection; always empty, because commands and replies do not contain it" => |_| Value::Absent;
    "ftp.data_channel.resp_h" [] "data_channel.resp_h": Address, "Address of the side that listens for the data connection; empty for EPSV" => |f| f.data_channel.and_then(|channel| channel.address).map_or(Value::Absent, Value::Address);
    "ftp.data_channel.resp_p" [] "data_channel.resp_p": Unsigned, "Port of the side that listens for the data connection" => |f| unsigned(f.data_channel.map(|channel| channel.port));
    "ftp.preliminary" [] preliminary: Texts, "Preliminary replies (100 to 199): 150 Opening data connection" => |f| owned_texts(f.preliminary.iter().map(|(code, text)| format!("{code} {text}")).collect());
    // Fields without a column in the log.
    "ftp.response.preliminary" ["ftp.preliminary_code"] _: Numbers, "Codes of the preliminary replies" => |f| collect_numbers(f.preliminary.iter().map(|(code, _)| *code));
    "ftp.time" [] _: Interval, "Time from the command to the reply" => |f| f.wait_ns.map_or(Value::Absent, Value::Interval);
}

impl Session for FtpExchange {
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
