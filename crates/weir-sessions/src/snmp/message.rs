//! Messages of SNMP (RFC 1157, RFC 3416, RFC 3412) in the Basic Encoding Rules of ASN.1 (X.690).

use crate::der::{Elements, INTEGER, OBJECT, OCTETS, SEQUENCE, integer, object};
use crate::values::readable;

/// Variables kept of one message.
const VARIABLES_MAX: usize = 16;

/// Bytes kept of a text: community, user, value.
const TEXT_BYTES_MAX: usize = 255;

const TIME_TICKS: u8 = 0x43;

/// What is asked for, or answered (RFC 3416 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Pdu {
    /// Values of these variables.
    Get,
    /// Those that follow these.
    GetNext,
    /// The answer.
    Response,
    /// New values.
    Set,
    /// Something happened, of version 1.
    TrapV1,
    /// Many that follow these.
    GetBulk,
    /// Something happened, and be it confirmed.
    Inform,
    /// Something happened.
    Trap,
    /// Between engines of version 3.
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

    /// Its name: `get-request`.
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

/// A variable and its value, where that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name: `1.3.6.1.2.1.1.1.0`.
    pub name: String,
    /// Its value, where it is text.
    pub text: Option<String>,
    /// Its value, where it is a time in hundredths of a second.
    pub ticks: Option<u32>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The number of the version: 0 is version 1, 1 version 2c, 3 version 3.
    pub version: u8,
    /// The community, which is the password; of versions 1 and 2c.
    pub community: Option<String>,
    /// The user, of version 3.
    pub user: Option<String>,
    /// What it is; none where it is encrypted.
    pub pdu: Option<Pdu>,
    /// What went wrong (RFC 3416 §3): 0 nothing.
    pub error: u32,
    /// Variables, 16 at most.
    pub variables: Vec<Variable>,
    /// How many there are.
    pub variables_count: u32,
}

impl Message {
    /// Reads a datagram; `None` where it is none of SNMP.
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

    /// Header, security parameters, and what they are for (RFC 3412 §6, RFC 3414 §2.4).
    fn take_v3(&mut self, inner: &mut Elements<'_>) -> Option<()> {
        let mut header = Elements::new(inner.next_of(SEQUENCE)?);
        header.next_of(INTEGER)?; // number of the message
        header.next_of(INTEGER)?; // longest answer
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
            scoped.next_of(OCTETS)?; // engine
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
                fields.next()?; // agent, two numbers, time
            }
        } else {
            fields.next_of(INTEGER)?; // number of the request
            let error = integer(fields.next_of(INTEGER)?)?;
            // Of a bulk request the two are other numbers.
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
