//! What this build of `weir` has: `weir --version --verbose`.

use weir_questions::compiled_in::FEATURES;

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
