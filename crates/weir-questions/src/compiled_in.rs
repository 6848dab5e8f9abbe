//! What this build has, and the texts of options depend on.

/// The features of Cargo, each with whether it is compiled in.
pub const FEATURES: &[(&str, bool)] =
    &[("kafka", HAS_KAFKA), ("otlp", HAS_OTLP), ("lua", HAS_LUA), ("pcre2", cfg!(feature = "pcre2"))];

/// Rows can be sent to Kafka.
pub const HAS_KAFKA: bool = cfg!(feature = "kafka");
/// Metrics can be sent by OTLP.
pub const HAS_OTLP: bool = cfg!(feature = "otlp");
/// Scripts in Lua can be run.
pub const HAS_LUA: bool = cfg!(feature = "lua");
