//! The page: files that are part of the program.

use crate::reply::Refusal;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};

/// Path, type, contents.
type File = (&'static str, &'static str, &'static [u8]);

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// All files of the page.
pub(crate) const FILES: &[File] = &[
    ("/", "text/html; charset=utf-8", include_bytes!("../page/index.html")),
    ("/page.css", STYLE, include_bytes!("../page/page.css")),
    ("/api.js", SCRIPT, include_bytes!("../page/api.js")),
    ("/charts.js", SCRIPT, include_bytes!("../page/charts.js")),
    ("/connection.js", SCRIPT, include_bytes!("../page/connection.js")),
    ("/controls.js", SCRIPT, include_bytes!("../page/controls.js")),
    ("/filter.js", SCRIPT, include_bytes!("../page/filter.js")),
    ("/page.js", SCRIPT, include_bytes!("../page/page.js")),
    ("/tables.js", SCRIPT, include_bytes!("../page/tables.js")),
    ("/uplot.js", SCRIPT, include_bytes!("../page/uplot/uPlot.iife.min.js")),
    ("/uplot.css", STYLE, include_bytes!("../page/uplot/uPlot.min.css")),
    ("/uplot-license.txt", "text/plain; charset=utf-8", include_bytes!("../page/uplot/LICENSE")),
];

/// The page runs its own scripts and asks its own server, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Adds the headers that every response has.
pub(crate) fn protect(head: &mut HeaderMap) {
    head.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    head.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    head.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    head.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    head.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
}

/// The file with this path.
pub(crate) fn file(path: &str) -> Result<(HeaderValue, &'static [u8]), Refusal> {
    let found = FILES.iter().find(|(known, _, _)| *known == path);
    let (_, content_type, bytes) = found.ok_or_else(Refusal::not_found)?;
    Ok((HeaderValue::from_static(content_type), bytes))
}

/// The header with the type of the contents.
pub(crate) const TYPE: axum::http::HeaderName = CONTENT_TYPE;
