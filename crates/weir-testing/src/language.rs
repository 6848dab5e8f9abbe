//! Reads any bytes as a text of the protocol language, and as a filter.

mod sample;

pub use sample::SampleCatalog;

use std::sync::LazyLock;
use weir_lang::filter::{TEXT_BYTES_MAX, compile, compile_bpf};
use weir_lang::{format, load};

/// Reads any bytes as a user's protocol text. The text is either refused with an error or accepted.
/// Formatting a formatted text changes nothing.
///
/// # Panics
/// If one of these properties does not hold.
pub fn fuzz_lang(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(wrong) = load(&[("fuzz.weir", &text)]) {
        assert!(wrong.has_errors(), "refused without saying why");
        let _ = wrong.render(true);
    }
    match format("fuzz.weir", &text) {
        Ok(laid_out) => assert_eq!(format("fuzz.weir", &laid_out).ok(), Some(laid_out)),
        Err(wrong) => assert!(wrong.has_errors(), "refused without saying why"),
    }
}

/// Reads any bytes as a filter, in both syntaxes. If the filter is accepted, its printed form compiles to the
/// same filter.
///
/// # Panics
/// If this does not hold.
pub fn fuzz_filter(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    static CATALOG: LazyLock<SampleCatalog> = LazyLock::new(Default::default);
    let catalog: &SampleCatalog = &CATALOG;
    for compile_one in [compile, compile_bpf] {
        if let Ok(filter) = compile_one(&text, catalog) {
            let printed = filter.expr.display(catalog).to_string();
            // Printing may lengthen the text past the limit.
            if printed.len() <= TEXT_BYTES_MAX {
                let again = compile(&printed, catalog).map(|again| again.expr);
                assert_eq!(again, Ok(filter.expr), "{text:?} printed as {printed:?}");
            }
        }
    }
}
