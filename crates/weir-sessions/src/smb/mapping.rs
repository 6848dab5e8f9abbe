//! Connected shares, as in Zeek's `smb_mapping.log`.

use super::action::SHARE_TYPES;
use super::{ShareType, SmbAction, SmbCommand, SmbShare};
use crate::session::session_fields;
use crate::values::text;
use crate::{PartLog, Session};
use std::any::Any;
use std::sync::Arc;
use weir_packet::{Timestamp, Value};

/// The log, for the registry.
pub(crate) const LOG: PartLog = PartLog {
    name: "smb_mapping",
    doc: "Shares of SMB 2 and 3 that clients connected",
    head: &["ts", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p"],
    known_by: "",
    of: &[("smb", of_smb)],
    brief: &["ts", "orig", "resp", "path", "share_type"],
    fields: FIELDS,
};

/// A share that a client connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmbMapping {
    /// Capture time of the request.
    pub time: Timestamp,
    /// The share.
    pub share: Arc<SmbShare>,
}

session_fields! { SmbMapping;
    "smb_mapping.path" [] path: Text, "Share: \\\\server\\share" => |m| text(m.share.path.as_deref());
    "smb_mapping.service" [] service: Text, "Type of the resource in SMB 1; always empty, because SMB 2 does not state it" => |_| Value::Absent;
    "smb_mapping.native_file_system" [] native_file_system: Text, "File system of the server in SMB 1; always empty, because SMB 2 does not state it" => |_| Value::Absent;
    "smb_mapping.share_type" [] share_type: Text in SHARE_TYPES, "Type of the share: DISK, PIPE, PRINT" => |m| text(m.share.share_type.map(ShareType::name));
}

impl Session for SmbMapping {
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

/// The share that a session connected; none if the server refused, or did not answer.
fn of_smb(session: &dyn Session) -> Vec<Box<dyn Session>> {
    let row = session.as_any().downcast_ref::<SmbAction>();
    let connected = row.filter(|row| row.command == SmbCommand::TreeConnect && row.succeeded() == Some(true));
    let share = connected.and_then(|row| Some((row.time, row.share.clone()?)));
    share.into_iter().map(|(time, share)| Box::new(SmbMapping { time, share }) as Box<dyn Session>).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connected_shares_have_a_row() {
        let mut row = SmbAction::new(Timestamp(5), SmbCommand::TreeConnect);
        let path = Some(r"\\files\docs".to_string());
        row.share = Some(Arc::new(SmbShare { path, share_type: Some(ShareType::Pipe) }));
        assert!(of_smb(&row).is_empty(), "no answer was seen");
        row.status = Some(0xc000_0022);
        assert!(of_smb(&row).is_empty(), "access was denied");
        row.status = Some(0);
        let [mapping] = &of_smb(&row)[..] else { panic!("one share") };
        assert_eq!(mapping.time(), Some(Timestamp(5)));
        let values: Vec<Value<'_>> = (0..FIELDS.len()).map(|index| mapping.value(index)).collect();
        let expected =
            [Value::Text(r"\\files\docs".into()), Value::Absent, Value::Absent, Value::Text("PIPE".into())];
        assert_eq!(values, expected);
        row.command = SmbCommand::Create;
        assert!(of_smb(&row).is_empty(), "a file is no share");
    }
}
