//! Bindings to the system's nDPI, if it is installed. The library names the application protocol of a flow by
//! its first packets, and what is suspicious about the flow (risks).
//!
//! `libndpi.so.4.2` is loaded on first use, once per process, and never unloaded; nothing is linked against
//! it. A [`Detector`] is one instance of the library's state, for one thread at a time; a [`Flow`] is its
//! state of a flow.
//!
//! How many packets of a flow are inspected, and when the result is final, follows nDPI's own program,
//! `ndpiReader`, so that the results are the same: see [`Detector::process`].
//!
//! A detector remembers some flows for later ones: hosts that a flow has negotiated, for example. The result
//! for a flow therefore depends on the flows before it in the same detector.

mod library;
mod risks;

use std::ffi::{CStr, c_char, c_uint};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

pub use library::Missing;
use library::{Functions, Module, Protocol, Protocols, RISKS_END, RawFlow};
pub use risks::Risks;

/// Packets of a flow over UDP after which nDPI's result is final, whatever it is (`ndpiReader -U`).
pub const UDP_PACKETS_MAX: u32 = 24;
/// The same for TCP (`ndpiReader -T`), and for protocols without ports.
pub const TCP_PACKETS_MAX: u32 = 80;
/// Usual memory of a flow whose result is not final, in bytes: the library's structure has 688 bytes, and
/// parts of handshakes are kept.
pub const FLOW_BYTES: usize = 4096;

/// The part of a URL that is tested, in bytes, as in `ndpiReader`.
const URL_BYTES: usize = 255;

/// The library's version: `4.2.0`.
///
/// # Errors
///
/// [`Missing`].
pub fn version() -> Result<&'static str, Missing> {
    Ok(&library::functions()?.version_text)
}

/// An instance of the library's state, for one thread at a time. It takes 5 MB, and 25 ms to create.
#[derive(Debug)]
pub struct Detector {
    functions: &'static Functions,
    module: NonNull<Module>,
}

// SAFETY: the library keeps no data of a thread. Two threads may not use a module at the same time, and all
// methods that change the module take `&mut self`.
unsafe impl Send for Detector {}

impl Drop for Detector {
    fn drop(&mut self) {
        let _alone = alone();
        // SAFETY: it came from `ndpi_init_detection_module`. Flows don't refer to it.
        unsafe { (self.functions.exit_detection_module)(self.module.as_ptr()) };
    }
}

/// Excludes other threads: modules may not be created at the same time (`ndpi_api.h`).
fn alone() -> impl Drop {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What nDPI knows of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Detection {
    /// The protocol that carries the other one: `TLS`. 0: there is none.
    pub master: u16,
    /// The protocol, or the service over it: `Google`. 0: unknown.
    pub app: u16,
    /// The category of the protocol.
    pub category: u32,
    /// What is suspicious.
    pub risks: Risks,
    /// The protocol was guessed by ports and addresses.
    pub is_guessed: bool,
}

/// The transport protocol of a flow, which determines how many of its packets are inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// [`UDP_PACKETS_MAX`]
    Udp,
    /// [`TCP_PACKETS_MAX`]
    Other,
}

/// The library's state of a flow, until the result is final.
#[derive(Debug)]
pub struct Flow {
    /// `None`: the result is final.
    raw: Option<OwnedFlow>,
    packets: u32,
    packets_max: u32,
    found: Detection,
}

// SAFETY: the structure belongs to its owner alone, and the library keeps no data of a thread.
unsafe impl Send for OwnedFlow {}

/// The library's structure, which is freed with its owner.
#[derive(Debug)]
struct OwnedFlow {
    functions: &'static Functions,
    raw: NonNull<RawFlow>,
}

impl Drop for OwnedFlow {
    fn drop(&mut self) {
        // SAFETY: it came from `ndpi_calloc` with the size that the library reports, and is freed once.
        unsafe { (self.functions.free_flow)(self.raw.as_ptr()) };
    }
}

impl Flow {
    /// Whether further packets change nothing. The library's state of the flow is freed then.
    pub fn is_final(&self) -> bool {
        self.raw.is_none()
    }
}

impl Detector {
    /// Creates a detector with all protocols; loads the library if it is not loaded yet.
    ///
    /// # Errors
    ///
    /// [`Missing`], also if out of memory.
    pub fn load() -> Result<Self, Missing> {
        let functions = library::functions()?;
        let _alone = alone();
        // SAFETY: no other thread creates a module. 0 is `ndpi_no_prefs`. The bits are read during the call
        // only, and the module is complete before it is used.
        unsafe {
            let module = NonNull::new((functions.init_detection_module)(0));
            let module = module.ok_or_else(|| Missing("out of memory".into()))?;
            (functions.set_protocol_detection_bitmask2)(module.as_ptr(), &Protocols([u32::MAX; 16]));
            (functions.finalize_initialization)(module.as_ptr());
            Ok(Self { functions, module })
        }
    }

    /// Begins a flow. `None` if out of memory.
    pub fn begin(&mut self, transport: Transport) -> Option<Flow> {
        let functions = self.functions;
        // SAFETY: the library needs zeroed memory of this size for a flow.
        let raw = unsafe { (functions.calloc)(1, (functions.sizeof_flow)() as usize) };
        let raw = OwnedFlow { functions, raw: NonNull::new(raw.cast())? };
        let packets_max = if transport == Transport::Udp { UDP_PACKETS_MAX } else { TCP_PACKETS_MAX };
        let found = Detection::default();
        Some(Flow { raw: Some(raw), packets: 0, packets_max, found })
    }

    /// Takes the next packet of a flow: its bytes from the IP header on, and its time in milliseconds since
    /// 1970. Bytes after the first 65 535 are left out.
    ///
    /// The result is final, and later packets are ignored, once the protocol is known and further packets
    /// can't add to it, or once the maximum number of packets is exceeded.
    pub fn process(&mut self, flow: &mut Flow, packet: &[u8], time_ms: u64) {
        let Some(raw) = &flow.raw else { return };
        flow.packets += 1;
        let is_enough = flow.packets > flow.packets_max;
        let length = u16::try_from(packet.len()).unwrap_or(u16::MAX);
        let (module, raw) = (self.module.as_ptr(), raw.raw.as_ptr());
        // SAFETY: module and flow are valid and used by this thread alone; the packet has at least `length`
        // bytes, and is only read during the call.
        let (protocol, has_more) = unsafe {
            let protocol = (self.functions.process_packet)(module, raw, packet.as_ptr(), length, time_ms);
            (protocol, (self.functions.extra_dissection_possible)(module, raw) != 0)
        };
        flow.note(protocol);
        let is_known = protocol.app != 0;
        if is_enough || is_known && !has_more {
            self.complete(flow, !is_known);
        }
    }

    /// Takes a packet of a flow into account that is not shown to the library: its IP header is in another
    /// packet.
    pub fn skip(&mut self, flow: &mut Flow) {
        flow.packets += 1;
        if flow.packets > flow.packets_max {
            self.complete(flow, true);
        }
    }

    /// The result for a flow, of which no more packets will come.
    pub fn finish(&mut self, flow: &mut Flow) -> Detection {
        self.complete(flow, true);
        flow.found
    }

    /// Makes the result final. With `guess`, the library decides now, by ports and addresses if need be.
    fn complete(&mut self, flow: &mut Flow, guess: bool) {
        let Some(owned) = flow.raw.take() else { return };
        let (module, raw) = (self.module.as_ptr(), owned.raw.as_ptr());
        let mut is_guessed = 0;
        // SAFETY: module and flow are valid and used by this thread alone; the result is written to our own
        // variable. The URL belongs to the flow, which is freed after this block.
        unsafe {
            if guess {
                let protocol = (self.functions.giveup)(module, raw, 1, &mut is_guessed);
                flow.note(protocol);
            }
            let of_url = self.url_risk(bytes((self.functions.http_url)(module, raw)));
            let numbers = 1..RISKS_END as c_uint;
            let is_set =
                |number: &c_uint| *number == of_url || (self.functions.isset_risk)(module, raw, *number) != 0;
            flow.found.risks = numbers.filter(is_set).collect();
        }
        flow.found.is_guessed = is_guessed != 0;
    }

    /// The risk of the URL of the flow's last HTTP request, such as SQL in its arguments; 0 for none.
    /// `ndpiReader` makes this test; the library doesn't make it for flows.
    fn url_risk(&self, url: &[u8]) -> u32 {
        let mut copy = [0_u8; URL_BYTES + 1];
        let length = url.len().min(URL_BYTES);
        copy[..length].copy_from_slice(&url[..length]);
        match length {
            0 => 0,
            // SAFETY: the copy ends in NUL. The library may write to the bytes before that, which are our
            // own.
            _ => unsafe { (self.functions.validate_url)(copy.as_mut_ptr().cast::<c_char>()) },
        }
    }

    /// The name of the protocols, as `ndpiReader` prints it: `TLS.Google`; `Unknown`.
    pub fn name<'n>(&self, found: &Detection, name: &'n mut Name) -> &'n str {
        let Detection { master, app, category, .. } = *found;
        let Name(bytes) = name;
        let length = bytes.len() as c_uint;
        // SAFETY: the buffer has the given length, in which the library writes a text that ends in NUL. The
        // library checks the numbers of the protocols.
        unsafe {
            (self.functions.protocol2name)(
                self.module.as_ptr(),
                Protocol { master, app, category },
                bytes.as_mut_ptr().cast::<c_char>(),
                length,
            )
        };
        CStr::from_bytes_until_nul(bytes).ok().and_then(|text| text.to_str().ok()).unwrap_or_default()
    }

    /// The name of the category: `Web`; `Unspecified`.
    pub fn category(&self, found: &Detection) -> &str {
        // SAFETY: the library checks the number. Names are in the module, and change only with the names of
        // own categories, which nobody sets.
        let name =
            unsafe { text((self.functions.category_name)(self.module.as_ptr(), found.category as c_uint)) };
        name.unwrap_or_default()
    }

    /// The names of risks: `Weak TLS Cipher`.
    pub fn risks(&self, risks: Risks) -> impl Iterator<Item = &'static str> {
        let risk2str = self.functions.risk2str;
        // SAFETY: for the numbers of its risks, the library returns constants.
        let name = move |number: u32| unsafe { text(risk2str(number)) };
        risks.numbers().filter(|number| *number < RISKS_END as u32).filter_map(name)
    }
}

/// The bytes of a text; none without one.
///
/// # Safety
///
/// The pointer is null, or points to a text that ends in NUL and is not changed during `'t`.
unsafe fn bytes<'t>(text: *const c_char) -> &'t [u8] {
    // SAFETY: as the caller promises.
    NonNull::new(text.cast_mut()).map_or(&[], |text| unsafe { CStr::from_ptr(text.as_ptr()) }.to_bytes())
}

/// The text at a pointer; `None` without one, or if the text is not UTF-8.
///
/// # Safety
///
/// As for [`bytes`].
unsafe fn text<'t>(text: *const c_char) -> Option<&'t str> {
    // SAFETY: as the caller promises.
    std::str::from_utf8(unsafe { bytes(text) }).ok().filter(|text| !text.is_empty())
}

impl Flow {
    fn note(&mut self, protocol: Protocol) {
        let Protocol { master, app, category } = protocol;
        self.found = Detection { master, app, category, ..self.found };
    }
}

/// Room for the name of two protocols.
#[derive(Debug, Clone)]
pub struct Name([u8; 128]);

impl Default for Name {
    fn default() -> Self {
        Self([0; 128])
    }
}

#[cfg(test)]
mod tests;
