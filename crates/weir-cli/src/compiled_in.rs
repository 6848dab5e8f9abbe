//! What this build of `weir` has: `weir --version --verbose`, and the parts of the help that depend on it.

/// The features of Cargo, each with whether it is compiled in.
const FEATURES: &[(&str, bool)] =
    &[("kafka", HAS_KAFKA), ("otlp", HAS_OTLP), ("lua", HAS_LUA), ("pcre2", cfg!(feature = "pcre2"))];

/// Rows can be sent to Kafka.
pub const HAS_KAFKA: bool = cfg!(feature = "kafka");
/// Metrics can be sent by OTLP.
pub const HAS_OTLP: bool = cfg!(feature = "otlp");
/// Scripts in Lua can be run.
pub const HAS_LUA: bool = cfg!(feature = "lua");

/// The version, and a line for each fact about the build.
pub fn lines() -> String {
    let linked = if cfg!(target_feature = "crt-static") { "static: loads no libraries" } else { "dynamic" };
    let mut text = format!(
        "weir {}\ntarget   {}\nlinked   {linked}\nprofile  {}\nfeatures\n",
        env!("CARGO_PKG_VERSION"),
        env!("WEIR_TARGET"),
        env!("WEIR_PROFILE"),
    );
    for (name, is_there) in FEATURES {
        text += &format!("  {name:6} {}\n", if *is_there { "yes" } else { "no" });
    }
    text
}
