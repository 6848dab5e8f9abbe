//! Tells the program its target and profile, for `weir --version --verbose`.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let said = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo::rustc-env=WEIR_TARGET={}", said("TARGET"));
    // PROFILE is `debug` or `release`, whatever the profile's name is. OUT_DIR has the name: it is
    // `…/PROFILE/build/PACKAGE/out`.
    let out = said("OUT_DIR");
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name).and_then(|name| name.to_str());
    println!("cargo::rustc-env=WEIR_PROFILE={}", folder.unwrap_or("unknown"));
}
