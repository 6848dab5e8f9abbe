//! Packets as items of pipelines: their fields as values of Rust types.

use super::question::packet_question;
use super::worker::{Feed, PipelineWorker, Times};
use crate::ask::compile::Compiler;
use crate::ask::names::{Names, part_of};
use crate::ask::question::Question;
use crate::handlers::isolation::Isolation;
use crate::rows::values::{Part, Place, fill, words_of};
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_compile::PacketValue;
use weir_lang::filter::FieldInfo;
use weir_packet::{PacketMeta, ValueType};
use weir_pipeline::Operator;

/// What operators passed on is reported ten times for each second.
const REPORT_NS: u64 = 100_000_000;

/// A packet of a pipeline, with the fields that the pipeline names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<F> {
    /// Capture time: nanoseconds since 1970.
    pub time: i64,
    /// Its number in the capture, from 1 on.
    pub number: u64,
    /// Its length on the wire, in bytes.
    pub wire_bytes: u32,
    /// The fields.
    pub fields: F,
}

/// A type that fields of packets have in pipelines.
///
/// | type | fields |
/// |---|---|
/// | `u8`, `u16`, `u32`, `u64` | numbers of at most so many bits; other numbers are `u64` |
/// | `bool` | flags |
/// | `i64` | times: nanoseconds since 1970 |
/// | `f64` | fractions |
/// | `IpAddr` | addresses of IPv4 and IPv6 |
/// | `Ipv4Addr`, `Ipv6Addr` | addresses of one version |
/// | `[u8; 6]` | hardware addresses |
/// | `Option` of one of these | the same, if the packet has the field |
///
/// A packet without a field that is no `Option` is left out.
pub trait FieldValue: Sized {
    /// Whether values of the field have this type.
    fn is_type_of(value_type: ValueType, bits: u32) -> bool;

    /// The value; `None` if the packet is left out.
    fn read(is_present: bool, words: &[u64]) -> Option<Self>;
}

/// Says which fields a type is for, and makes the value of its words.
macro_rules! field_value {
    ($type:ty, $is_type:expr, $make:expr) => {
        impl FieldValue for $type {
            fn is_type_of(value_type: ValueType, bits: u32) -> bool {
                let is_type: fn(ValueType, u32) -> bool = $is_type;
                is_type(value_type, bits)
            }

            #[inline]
            fn read(is_present: bool, words: &[u64]) -> Option<Self> {
                let make: fn(&[u64]) -> $type = $make;
                is_present.then(|| make(words))
            }
        }
    };
}

fn low(words: &[u64]) -> u64 {
    words.last().copied().unwrap_or(0)
}

fn is_number(value_type: ValueType, bits: u32, max: u32) -> bool {
    value_type == ValueType::Unsigned && (1..=max).contains(&bits)
}

field_value!(u8, |of, bits| is_number(of, bits, 8), |words| low(words) as u8);
field_value!(u16, |of, bits| is_number(of, bits, 16), |words| low(words) as u16);
field_value!(u32, |of, bits| is_number(of, bits, 32), |words| low(words) as u32);
field_value!(u64, |of, _| matches!(of, ValueType::Unsigned | ValueType::Interval), low);
field_value!(bool, |of, _| of == ValueType::Bool, |words| low(words) != 0);
field_value!(i64, |of, _| of == ValueType::Time, |words| low(words) as i64);
field_value!(f64, |of, _| of == ValueType::Fraction, |words| f64::from_bits(low(words)));
field_value!(IpAddr, |of, _| matches!(of, ValueType::Ipv4 | ValueType::Ipv6 | ValueType::Address), |words| {
    match words {
        [high, low] => {
            let address = Ipv6Addr::from_bits(u128::from(*high) << 64 | u128::from(*low));
            address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
        }
        words => IpAddr::V4(Ipv4Addr::from_bits(low(words) as u32)),
    }
});
field_value!(Ipv4Addr, |of, _| of == ValueType::Ipv4, |words| Ipv4Addr::from_bits(low(words) as u32));
field_value!(Ipv6Addr, |of, _| of == ValueType::Ipv6, |words| {
    let high = words.first().copied().unwrap_or(0);
    Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low(words)))
});
field_value!([u8; 6], |of, _| of == ValueType::Mac, |words| {
    let [_, _, mac @ ..] = low(words).to_be_bytes();
    mac
});

impl<T: FieldValue> FieldValue for Option<T> {
    fn is_type_of(value_type: ValueType, bits: u32) -> bool {
        T::is_type_of(value_type, bits)
    }

    #[inline]
    fn read(is_present: bool, words: &[u64]) -> Option<Self> {
        Some(T::read(is_present, words))
    }
}

/// The fields of a packet: a tuple of up to eight [`FieldValue`]s, or `()`.
pub trait PacketFields: Sized + Send + 'static {
    /// Number of fields.
    const COUNT: usize;

    /// Whether the field with this index has the type of the one in the catalogue.
    fn is_type_of(index: usize, value_type: ValueType, bits: u32) -> bool;

    /// The fields; `None` if the packet is left out. `words` has the words of the field with this index, and
    /// `present` a bit for each field of the packet.
    fn read<'w>(words: impl Fn(usize) -> &'w [u64], present: u64) -> Option<Self>;
}

macro_rules! packet_fields {
    ($count:literal: $($field:ident $index:literal),*) => {
        impl<$($field: FieldValue + Send + 'static),*> PacketFields for ($($field,)*) {
            const COUNT: usize = $count;

            fn is_type_of(index: usize, value_type: ValueType, bits: u32) -> bool {
                match index {
                    $($index => $field::is_type_of(value_type, bits),)*
                    _ => {
                        let _ = (value_type, bits);
                        false
                    }
                }
            }

            #[inline]
            fn read<'w>(words: impl Fn(usize) -> &'w [u64], present: u64) -> Option<Self> {
                let _ = (&words, present);
                Some(($($field::read(present >> $index & 1 != 0, words($index))?,)*))
            }
        }
    };
}

packet_fields!(0:);
packet_fields!(1: A 0);
packet_fields!(2: A 0, B 1);
packet_fields!(3: A 0, B 1, C 2);
packet_fields!(4: A 0, B 1, C 2, D 3);
packet_fields!(5: A 0, B 1, C 2, D 3, E 4);
packet_fields!(6: A 0, B 1, C 2, D 3, E 4, F 5);
packet_fields!(7: A 0, B 1, C 2, D 3, E 4, F 5, G 6);
packet_fields!(8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// Makes [`Packet`]s.
struct Fields<F> {
    parts: Vec<Part>,
    places: Vec<Place>,
    words: Vec<u64>,
    fields: PhantomData<fn() -> F>,
}

impl<F: PacketFields> Feed for Fields<F> {
    type Item<'a> = Packet<F>;

    fn find(&mut self, values: &[PacketValue]) {
        self.places = self.parts.iter().map(|part| Place::of(part, values)).collect();
    }

    #[inline]
    fn item(&mut self, meta: &PacketMeta, outs: &[u64]) -> Option<Packet<F>> {
        let present = fill(&self.places, &mut self.words, outs);
        let Self { parts, words, .. } = self;
        let words = |index: usize| &words[parts[index].word..parts[index].word + parts[index].words];
        let fields = F::read(words, present)?;
        Some(Packet { time: meta.time.0, number: meta.number, wire_bytes: meta.wire_bytes, fields })
    }
}

/// The question for a pipeline over packets with these fields; `make` makes the operators of each worker.
///
/// # Errors
/// A name that is no field, or a field of another type.
pub(crate) fn typed_question<F, O>(
    compiler: &Compiler,
    filter: &str,
    names: &[&str],
    isolation: Isolation,
    make: impl Fn() -> O + Send + Sync + 'static,
) -> Result<Question, String>
where
    F: PacketFields,
    O: Operator<Packet<F>> + Send + 'static,
    O::Out: Send + 'static,
{
    if names.len() != F::COUNT {
        return Err(format!("the pipeline takes {} fields, and {} are named", F::COUNT, names.len()));
    }
    let known = Names::of_packets(compiler);
    let mut parts: Vec<Part> = vec![];
    for (index, name) in names.iter().enumerate() {
        let at = known.named(name, "field")?;
        let FieldInfo { value_type, bits, .. } = known.fields[at];
        if !F::is_type_of(index, value_type, bits) {
            return Err(match rust_type(value_type, bits) {
                Some(rust_type) => format!("the field `{name}` has another type: take it as `{rust_type}`"),
                None => format!("the field `{name}` is no number: pipelines do not have it"),
            });
        }
        parts.push(part_of(&known, at, words_of(&parts)));
    }
    let of_worker = parts.clone();
    let make = move || {
        let words = vec![0; words_of(&of_worker)];
        let feed = Fields::<F> { parts: of_worker.clone(), places: vec![], words, fields: PhantomData };
        let worker = PipelineWorker::new(feed, make(), Times::Bursts(REPORT_NS), Some(isolation.clone()));
        Box::new(worker) as _
    };
    packet_question(filter, &parts, make)
}

/// The narrowest Rust type of a field.
fn rust_type(value_type: ValueType, bits: u32) -> Option<&'static str> {
    Some(match value_type {
        ValueType::Bool => "bool",
        ValueType::Unsigned => match bits {
            1..=8 => "u8",
            9..=16 => "u16",
            17..=32 => "u32",
            _ => "u64",
        },
        ValueType::Time => "i64",
        ValueType::Fraction => "f64",
        ValueType::Ipv4 => "Ipv4Addr",
        ValueType::Ipv6 => "Ipv6Addr",
        ValueType::Address => "IpAddr",
        ValueType::Mac => "[u8; 6]",
        ValueType::Interval => "u64",
        ValueType::Text | ValueType::Bytes | ValueType::Texts | ValueType::Numbers => return None,
    })
}
