//! The fields that filters can name: of a stack's layers, of the capture, of connections, of sessions. All
//! are generated from definitions, which are the only source.

use crate::columns::{CONNECTION_COLUMNS, connection_columns, end_columns};
use crate::events::{StackEvent, events};
use rustc_hash::{FxHashMap, FxHashSet};
use weir_ir::graph::Meta;
use weir_lang::diag::Span;
use weir_lang::filter::{Catalog, Expr, FieldInfo, Filter, Literal, Predicate, Stage};
use weir_lang::model::{FieldId, FieldType, LayerId, LetId, PresenceId, Protocol, Stack};
use weir_packet::{Column, ValueType};
use weir_sessions::{Field, ProtocolSet, SessionProtocol, SessionRegistry};

/// The kind of a field of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldKey {
    /// A layer as a whole.
    Layer(LayerId),
    /// A field of its header.
    Field(LayerId, FieldId),
    /// A derived value.
    Let(LayerId, LetId),
    /// Several fields under one name.
    Alias(LayerId, u16),
    /// Whether a run item was present.
    Presence(LayerId, PresenceId),
    /// The bytes after the layer's header.
    Payload(LayerId),
    /// Whether an event occurred on the packet.
    Event(LayerId, u16),
    /// A column of an event that occurred on the packet.
    EventColumn(LayerId, u16, u16),
    /// An event that reports the end of instances.
    End(LayerId, u16),
    /// A column of such an event: of its rows, and of the records of connections.
    EndColumn(LayerId, u16, u16),
    /// The packet's bytes.
    Frame,
    /// Metadata of the packet.
    Meta(Meta),
    /// A number made of the packet's hosts.
    Sample,
    /// Column of the connection's record.
    Connection(u16),
    /// A session protocol as a whole.
    Session(u16),
    /// A field of its sessions.
    SessionField(u16, u16),
}

impl FieldKey {
    /// The layer of the field, if it has one.
    pub fn layer(self) -> Option<LayerId> {
        match self {
            FieldKey::Layer(layer)
            | FieldKey::Field(layer, _)
            | FieldKey::Let(layer, _)
            | FieldKey::Alias(layer, _)
            | FieldKey::Presence(layer, _)
            | FieldKey::Payload(layer)
            | FieldKey::Event(layer, _)
            | FieldKey::EventColumn(layer, ..) => Some(layer),
            _ => None,
        }
    }
}

/// The columns of a log of session parts, as fields.
#[derive(Debug, Clone, Copy)]
pub struct PartFields {
    /// The log's name.
    pub name: &'static str,
    /// One-line description.
    pub doc: &'static str,
    /// The fields.
    pub fields: &'static [Field],
}

/// The catalogue of one stack.
#[derive(Debug, Clone, Default)]
pub struct StackCatalog {
    fields: Vec<FieldInfo>,
    keys: Vec<FieldKey>,
    /// By layer: number of events of the layers before it.
    events_before: Vec<usize>,
    /// Names and aliases of the fields so far, with which those of events and sessions may collide.
    names: FxHashSet<String>,
    /// Index of each field by name and alias.
    by_name: FxHashMap<String, usize>,
    /// By event `on end` and column: the column of the connection's record.
    record_columns: FxHashMap<(LayerId, u16, u16), usize>,
    /// By session protocol: the layers that may carry it.
    session_transports: Vec<&'static [&'static str]>,
}

impl Catalog for StackCatalog {
    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

/// The field for the time since the first packet. Filters are [rewritten](StackCatalog::with_first_time)
/// before they are lowered.
pub const RELATIVE_TIME: &str = "frame.time_relative";

/// The field by which samples of connections are taken: numbers up to [`SAMPLES`].
pub const SAMPLE: &str = "frame.sample";

/// The number of values of [`SAMPLE`].
pub const SAMPLES: u64 = 1 << 16;

impl StackCatalog {
    /// Rewrites comparisons of [`RELATIVE_TIME`] to comparisons of `frame.time`, given the time of the first
    /// packet in nanoseconds since 1970.
    ///
    /// # Errors
    /// The span of the first such comparison, if `first` is `None`.
    pub fn with_first_time(&self, filter: &mut Filter, first: Option<i64>) -> Result<(), Span> {
        let (Some(relative), Some(absolute)) = (self.find(RELATIVE_TIME), self.find("frame.time")) else {
            return Ok(());
        };
        let rewrite = |predicate: &mut Predicate| {
            if predicate.field != relative {
                return Ok(());
            }
            let first = u64::try_from(first.ok_or(predicate.span)?).unwrap_or(0);
            predicate.field = absolute;
            for literal in &mut predicate.literals {
                if let Literal::Numbers(from, to) = literal {
                    (*from, *to) = (from.saturating_add(first), to.saturating_add(first));
                }
            }
            Ok(())
        };
        filter.predicates.iter_mut().try_for_each(&rewrite)?;
        rewrite_all(&mut filter.expr, &rewrite)
    }

    /// The fields of `stack`, of connections and of every session protocol of the registry.
    pub fn of(stack: &Stack, sessions: &SessionRegistry) -> Self {
        Self::new(stack, &connection_columns(stack), sessions.protocols())
    }

    /// As [`of`](Self::of), with the built-in session protocols: for checks before a registry exists.
    pub fn with_builtin_sessions(stack: &Stack) -> Self {
        Self::of(stack, SessionRegistry::builtin())
    }

    /// As [`of`](Self::of), followed by the columns of a log of session parts: [`FieldKey::SessionField`]s
    /// whose protocol is the next free number of the registry.
    pub fn with_parts(stack: &Stack, sessions: &SessionRegistry, parts: Option<PartFields>) -> Self {
        Self::collect(stack, &connection_columns(stack), sessions.protocols(), parts)
    }

    /// Collects the fields of `stack`, of connections (column names prefixed with `conn.`) and of sessions.
    pub fn new(stack: &Stack, connection: &[Column], sessions: &[&SessionProtocol]) -> Self {
        Self::collect(stack, connection, sessions, None)
    }

    fn collect(
        stack: &Stack,
        connection: &[Column],
        sessions: &[&SessionProtocol],
        parts: Option<PartFields>,
    ) -> Self {
        let mut catalog = Self::default();
        catalog.add_frame();
        for (index, layer) in stack.layers.iter().enumerate() {
            catalog.add_layer(LayerId(index as u16), &layer.protocol);
        }
        for field in &catalog.fields {
            catalog.names.extend(field.aliases.iter().chain([&field.name]).cloned());
        }
        let all = events(stack);
        let layers = (0..stack.layers.len() as u16).map(LayerId);
        catalog.events_before = layers.map(|id| all.partition_point(|event| event.layer < id)).collect();
        all.iter().for_each(|event| catalog.add_event(event));
        for (at, end) in end_columns(stack).iter().enumerate() {
            let places = end.of.iter().map(|&(event, column)| (&all[event], column as u16));
            let index = CONNECTION_COLUMNS.len() + at;
            let indices = places.map(|(event, column)| ((event.layer, event.index, column), index));
            catalog.record_columns.extend(indices);
        }
        for (index, column) in connection.iter().enumerate() {
            let key = FieldKey::Connection(index as u16);
            catalog.add(
                key,
                format!("conn.{}", column.name),
                column.value_type,
                64,
                &column.doc,
                Stage::Connection,
            );
        }
        for (index, protocol) in sessions.iter().enumerate() {
            catalog.add_session(index as u16, protocol);
            catalog.session_transports.push(protocol.transports);
        }
        if let Some(parts) = parts {
            let index = sessions.len() as u16;
            catalog.add_session_name(index, parts.name, parts.doc);
            catalog.add_session_fields(index, parts.fields);
        }
        catalog.index();
        catalog.name_events(stack);
        catalog
    }

    /// Adds the aliases of events and of their columns that are not taken.
    fn name_events(&mut self, stack: &Stack) {
        for event in events(stack) {
            for alias in &event.aliases {
                let columns = event.columns.iter().map(|(column, _)| format!(".{column}"));
                for rest in std::iter::once(String::new()).chain(columns) {
                    let Some(index) = self.find(&format!("{}{rest}", event.name)) else { continue };
                    let is_event = matches!(
                        self.keys[index],
                        FieldKey::Event(..)
                            | FieldKey::EventColumn(..)
                            | FieldKey::End(..)
                            | FieldKey::EndColumn(..)
                    );
                    let name = format!("{alias}{rest}");
                    if is_event && !self.by_name.contains_key(&name) {
                        self.fields[index].aliases.push(name.clone());
                        self.by_name.insert(name, index);
                    }
                }
            }
        }
    }

    fn index(&mut self) {
        let names = self.fields.iter().enumerate().map(|(index, field)| (&field.name, index));
        let aliases = self
            .fields
            .iter()
            .enumerate()
            .flat_map(|(index, field)| field.aliases.iter().map(move |alias| (alias, index)));
        for (name, index) in names.chain(aliases) {
            self.by_name.entry(name.clone()).or_insert(index);
        }
    }

    /// Adds a session protocol and its fields. Fields of the stack's layers with the same names take
    /// precedence.
    fn add_session(&mut self, index: u16, protocol: &SessionProtocol) {
        if self.add_session_name(index, protocol.name, protocol.doc) {
            // The name in `conn.service`, such as `ssl`.
            if self.names.insert(protocol.service.to_string()) && protocol.service != protocol.name {
                self.last().aliases.push(protocol.service.to_string());
            }
        }
        self.add_session_fields(index, protocol.fields);
    }

    /// Adds the name of a session protocol, unless it is taken.
    fn add_session_name(&mut self, index: u16, name: &str, doc: &str) -> bool {
        if self.is_taken(name) {
            return false;
        }
        self.add(FieldKey::Session(index), name.to_string(), ValueType::Bool, 1, doc, Stage::Session);
        self.last().is_protocol = true;
        true
    }

    fn add_session_fields(&mut self, index: u16, fields: &[Field]) {
        for (f, field) in fields.iter().enumerate() {
            if !self.is_taken(field.name) {
                let key = FieldKey::SessionField(index, f as u16);
                self.add(key, field.name.to_string(), field.value_type, 64, field.doc, Stage::Session);
                self.last().aliases = field.aliases.iter().map(|a| a.to_string()).collect();
            }
        }
    }

    /// Whether a field has this name or alias.
    fn is_taken(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The kind of field `index`.
    pub fn key(&self, index: usize) -> FieldKey {
        self.keys[index]
    }

    /// The number of a layer's event in a program.
    pub fn event_number(&self, layer: LayerId, event: u16) -> usize {
        self.events_before[usize::from(layer.0)] + usize::from(event)
    }

    /// The field of the connection's record that a column of an event `on end` is. `None` if the event's
    /// instances are not connections.
    pub fn record_field(&self, layer: LayerId, event: u16, column: u16) -> Option<usize> {
        let column = *self.record_columns.get(&(layer, event, column))?;
        let key = FieldKey::Connection(column as u16);
        self.keys.iter().position(|known| *known == key)
    }

    /// The layers that may carry a session protocol.
    pub(crate) fn transports_of(&self, protocol: u16) -> &'static [&'static str] {
        self.session_transports[usize::from(protocol)]
    }

    /// The session protocols that a layer of this name may carry.
    pub(crate) fn sessions_over(&self, layer: &str) -> ProtocolSet {
        let numbered = self.session_transports.iter().enumerate();
        numbered.filter(|(_, transports)| transports.contains(&layer)).map(|(number, _)| number).collect()
    }

    /// Whether field `index` is an IPv4 or IPv6 address.
    pub fn is_address(&self, index: usize) -> bool {
        self.fields[index].value_type == ValueType::Address
    }

    fn last(&mut self) -> &mut FieldInfo {
        self.fields.last_mut().expect("called after add")
    }

    fn add(
        &mut self,
        key: FieldKey,
        name: String,
        value_type: ValueType,
        bits: u32,
        doc: &str,
        stage: Stage,
    ) {
        let bits = if value_type == ValueType::Unsigned || value_type == ValueType::Bool { bits } else { 0 };
        self.fields.push(FieldInfo {
            name,
            aliases: vec![],
            value_type,
            bits,
            stage,
            doc: doc.to_string(),
            is_protocol: false,
            is_frame: false,
            key: self.keys.len() as u32,
        });
        self.keys.push(key);
    }

    fn add_frame(&mut self) {
        use ValueType::{Bool, Bytes, Interval, Time, Unsigned};
        let packet = Stage::Packet;
        self.add(FieldKey::Frame, "frame".into(), Bytes, 0, "the captured bytes", packet);
        self.last().is_frame = true;
        for (name, meta, value_type, doc) in [
            ("frame.len", Meta::WireBytes, Unsigned, "bytes on the wire"),
            ("frame.cap_len", Meta::CapturedBytes, Unsigned, "bytes captured"),
            ("frame.number", Meta::Number, Unsigned, "number of the packet in the run, from 1"),
            ("frame.time", Meta::Time, Time, "time of capture"),
            (
                RELATIVE_TIME,
                Meta::Time,
                Interval,
                "time since the first packet of the captures; only of files",
            ),
            ("frame.interface_id", Meta::Interface, Unsigned, "interface, numbered from 0"),
            ("frame.link", Meta::Link, Unsigned, "LINKTYPE_ number of the interface"),
        ] {
            self.add(FieldKey::Meta(meta), name.into(), value_type, 64, doc, packet);
            if meta == Meta::Time && value_type == Time {
                // Wireshark's name for seconds since 1970, which constants may be.
                self.last().aliases.push("frame.time_epoch".into());
            }
        }
        debug_assert!(Bool != Bytes);
        let doc = "a number from 0 to 65535 made of the two hosts of the outermost IP header, for samples; 0 without hosts";
        self.add(FieldKey::Sample, SAMPLE.into(), Unsigned, 16, doc, packet);
    }

    fn add_layer(&mut self, id: LayerId, protocol: &Protocol) {
        let prefix = &protocol.filter_name;
        let packet = Stage::Packet;
        let first = self.fields.len();
        self.add(FieldKey::Layer(id), prefix.clone(), ValueType::Bool, 1, &protocol.doc, packet);
        self.last().is_protocol = true;
        for (index, field) in protocol.fields.iter().enumerate() {
            let (value_type, bits) = field_value_type(&field.ty);
            let key = FieldKey::Field(id, FieldId(index as u16));
            self.add(key, format!("{prefix}.{}", field.path), value_type, bits, &field.doc, packet);
            self.last().aliases.extend(field.alias.iter().map(|a| format!("{prefix}.{a}")));
        }
        for (index, presence) in protocol.presences.iter().enumerate() {
            let key = FieldKey::Presence(id, PresenceId(index as u16));
            self.add(
                key,
                format!("{prefix}.{}", presence.path),
                ValueType::Bool,
                1,
                "whether it is there",
                packet,
            );
            self.last().aliases.extend(presence.alias.iter().map(|a| format!("{prefix}.{a}")));
        }
        for (index, value) in protocol.lets.iter().enumerate().filter(|(_, l)| !l.doc.is_empty()) {
            let key = FieldKey::Let(id, LetId(index as u16));
            self.add(key, format!("{prefix}.{}", value.name), ValueType::Unsigned, 64, &value.doc, packet);
        }
        for (index, alias) in protocol.aliases.iter().enumerate() {
            let (value_type, bits) = field_value_type(&protocol.fields[alias.fields[0].0 as usize].ty);
            let key = FieldKey::Alias(id, index as u16);
            self.add(key, format!("{prefix}.{}", alias.name), value_type, bits, &alias.doc, packet);
        }
        if protocol.payload.is_some() {
            let name = format!("{prefix}.payload");
            self.add(FieldKey::Payload(id), name, ValueType::Bytes, 0, "the bytes after the header", packet);
        }
        for field in &mut self.fields[first..] {
            let names = field.aliases.iter().chain([&field.name]);
            let parts: Vec<&str> = names.filter_map(|name| name.strip_prefix(prefix.as_str())).collect();
            let others = &protocol.other_filter_names;
            let aliases: Vec<String> = others
                .iter()
                .flat_map(|other| parts.iter().map(move |part| format!("{other}{part}")))
                .collect();
            field.aliases.extend(aliases);
        }
    }

    /// Adds an event and its columns. Header fields with the same names take precedence.
    fn add_event(&mut self, event: &StackEvent) {
        if self.is_taken(&event.name) {
            return;
        }
        let (layer, number) = (event.layer, event.index);
        let (key, stage, doc) = match event.is_of_instance {
            true if event.is_end => (FieldKey::End(layer, number), Stage::Connection, "as it was at the end"),
            true => (FieldKey::End(layer, number), Stage::Connection, "as it was then"),
            false => (FieldKey::Event(layer, number), Stage::Packet, "as it was when this happened"),
        };
        let name = event.name.clone();
        self.names.insert(name.clone());
        self.add(key, name, ValueType::Bool, 1, &event.doc, stage);
        for (index, (column, value_type)) in event.columns.iter().enumerate() {
            let name = format!("{}.{column}", event.name);
            let key = match event.is_of_instance {
                true => FieldKey::EndColumn(layer, number, index as u16),
                false => FieldKey::EventColumn(layer, number, index as u16),
            };
            if self.names.insert(name.clone()) {
                self.add(key, name, *value_type, 64, doc, stage);
            }
        }
    }
}

/// The type of a field's values in filters and records, and its size in bits if it is a number.
pub fn field_value_type(ty: &FieldType) -> (ValueType, u32) {
    match ty {
        FieldType::Unsigned { bits, .. } => (ValueType::Unsigned, *bits),
        FieldType::Mac => (ValueType::Mac, 48),
        FieldType::Ipv4 => (ValueType::Ipv4, 32),
        FieldType::Ipv6 => (ValueType::Ipv6, 128),
        FieldType::Bytes(_) => (ValueType::Bytes, 0),
        FieldType::Text(_) => (ValueType::Text, 0),
        FieldType::Counted(_) => (ValueType::Unsigned, 64),
    }
}

/// Rewrites every predicate of an expression.
fn rewrite_all(expr: &mut Expr, rewrite: &impl Fn(&mut Predicate) -> Result<(), Span>) -> Result<(), Span> {
    match expr {
        Expr::True => Ok(()),
        Expr::Predicate(predicate) => rewrite(predicate),
        Expr::And(parts) | Expr::Or(parts) => {
            parts.iter_mut().try_for_each(|part| rewrite_all(part, rewrite))
        }
    }
}
