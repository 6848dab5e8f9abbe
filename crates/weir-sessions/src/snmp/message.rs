//! SNMP messages (RFC 1157, RFC 3416, RFC 3412) in the Basic Encoding Rules of ASN.1 (X.690).

use crate::der::{Elements, INTEGER, OBJECT, OCTETS, SEQUENCE, integer, object};
use crate::values::readable;

/// Maximum number of variables kept of a message.
const VARIABLES_MAX: usize = 16;

/// Maximum number of bytes kept of a text: community, user, value.
const TEXT_BYTES_MAX: usize = 255;

const TIME_TICKS: u8 = 0x43;

/// PDU types (RFC 3416 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Pdu {
    /// Requests values of variables.
    Get,
    /// Requests the variables that follow the given ones.
    GetNext,
    /// Response.
    Response,
    /// Sets values.
    Set,
    /// Notification, version 1.
    TrapV1,
    /// Requests many variables that follow the given ones.
    GetBulk,
    /// Notification that must be confirmed.
    Inform,
    /// Notification.
    Trap,
    /// Report between engines, version 3.
    Report,
}

impl Pdu {
    const ALL: [Self; 9] = [
        Self::Get,
        Self::GetNext,
        Self::Response,
        Self::Set,
        Self::TrapV1,
        Self::GetBulk,
        Self::Inform,
        Self::Trap,
        Self::Report,
    ];

    /// The name of the type: `get-request`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get-request",
            Self::GetNext => "get-next-request",
            Self::Response => "response",
            Self::Set => "set-request",
            Self::TrapV1 => "trap-v1",
            Self::GetBulk => "get-bulk-request",
            Self::Inform => "inform-request",
            Self::Trap => "trap",
            Self::Report => "report",
        }
    }
}

/// A variable, and its value if it is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Object identifier: `1.3.6.1.2.1.1.1.0`.
    pub name: String,
    /// The value, if it is text.
    pub text: Option<String>,
    /// The value, if it is a time in hundredths of a second.
    pub ticks: Option<u32>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Version number: 0 is version 1, 1 version 2c, 3 version 3.
    pub version: u8,
    /// The community, which serves as a password; versions 1 and 2c.
    pub community: Option<String>,
    /// The user; version 3.
    pub user: Option<String>,
    /// PDU type. `None` if the PDU is encrypted.
    pub pdu: Option<Pdu>,
    /// Error status (RFC 3416 §3): 0 is no error.
    pub error: u32,
    /// Variables, 16 at most.
    pub variables: Vec<Variable>,
    /// Number of variables, including those not kept.
    pub variables_count: u32,
}

impl Message {
    /// Parses a datagram. `None` if it is not SNMP.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let mut outer = Elements::new(datagram);
        let mut inner = Elements::new(outer.next_of(SEQUENCE)?);
        let version = u8::try_from(integer(inner.next_of(INTEGER)?)?).ok()?;
        let mut message = Self {
            version,
            community: None,
            user: None,
            pdu: None,
            error: 0,
            variables: Vec::new(),
            variables_count: 0,
        };
        match version {
            0 | 1 => {
                message.community = Some(text(inner.next_of(OCTETS)?));
                let (tag, pdu) = inner.next()?;
                message.take_pdu(tag, pdu)?;
            }
            3 => message.take_v3(&mut inner)?,
            _ => return None,
        }
        Some(message)
    }

    /// Parses header, security parameters and scoped PDU (RFC 3412 §6, RFC 3414 §2.4).
    fn take_v3(&mut self, inner: &mut Elements<'_>) -> Option<()> {
        let mut header = Elements::new(inner.next_of(SEQUENCE)?);
        header.next_of(INTEGER)?; // message id
        header.next_of(INTEGER)?; // longest response
        header.next_of(OCTETS)?; // flags
        let mut security = Elements::new(inner.next_of(OCTETS)?);
        if integer(header.next_of(INTEGER)?)? == 3
            && let Some(parameters) = security.next_of(SEQUENCE)
        {
            let mut parameters = Elements::new(parameters);
            let _ = (parameters.next(), parameters.next(), parameters.next());
            self.user = parameters.next_of(OCTETS).filter(|user| !user.is_empty()).map(text);
        }
        let (tag, content) = inner.next()?;
        if tag == SEQUENCE {
            let mut scoped = Elements::new(content);
            scoped.next_of(OCTETS)?; // engine id
            scoped.next_of(OCTETS)?; // context
            let (tag, pdu) = scoped.next()?;
            self.take_pdu(tag, pdu)?;
        }
        Some(())
    }

    fn take_pdu(&mut self, tag: u8, content: &[u8]) -> Option<()> {
        let pdu = *Pdu::ALL.get(usize::from(tag.checked_sub(0xa0)?))?;
        self.pdu = Some(pdu);
        let mut fields = Elements::new(content);
        if pdu == Pdu::TrapV1 {
            fields.next_of(OBJECT)?; // enterprise
            for _ in 0..4 {
                fields.next()?; // agent, generic and specific trap, time
            }
        } else {
            fields.next_of(INTEGER)?; // request id
            let error = integer(fields.next_of(INTEGER)?)?;
            // GetBulk has other numbers in place of the error.
            if pdu != Pdu::GetBulk {
                self.error = u32::try_from(error).unwrap_or(0);
            }
            fields.next_of(INTEGER)?;
        }
        let mut list = Elements::new(fields.next_of(SEQUENCE)?);
        while let Some(variable) = list.next_of(SEQUENCE) {
            self.variables_count += 1;
            if self.variables.len() < VARIABLES_MAX {
                let mut parts = Elements::new(variable);
                let name = object(parts.next_of(OBJECT)?);
                let value = parts.next();
                self.variables.push(Variable {
                    name,
                    text: value.filter(|value| value.0 == OCTETS).map(|value| text(value.1)),
                    ticks: value
                        .filter(|value| value.0 == TIME_TICKS)
                        .and_then(|value| u32::try_from(integer(value.1)?).ok()),
                });
            }
        }
        Some(())
    }
}

fn text(content: &[u8]) -> String {
    readable(&content[..content.len().min(TEXT_BYTES_MAX)]).into_owned()
}
