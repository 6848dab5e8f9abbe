//! Files of questions for `weir run`: half of the questions ask for TLS by server name, half for HTTP by URI.

use crate::shell::{Result, said};
use std::fmt::Write;
use std::path::Path;

/// The numbers of questions that are measured.
const COUNTS: [usize; 5] = [1, 10, 100, 256, 1000];

/// Writes a file for each of the [`COUNTS`] to `folder`, named by the number.
pub fn write(folder: &Path) -> Result {
    std::fs::create_dir_all(folder).map_err(said(folder.display()))?;
    for count in COUNTS {
        let path = folder.join(format!("{count}.toml"));
        std::fs::write(&path, file(count)).map_err(said(path.display()))?;
    }
    Ok(())
}

fn file(count: usize) -> String {
    let mut text = String::new();
    for number in 0..count {
        let (ask, filter) = match number {
            // One question asks for what two ask for.
            0 if count == 1 => {
                ("sessions", "tls.sni != \"q0.example.com\" or http.request.uri contains \"00\"".to_string())
            }
            // Only two digits of the URI are compared, so that later questions get as many answers as the first. The second
            // term makes each filter another one.
            _ if number % 2 == 0 => (
                "http",
                format!(
                    "http.request.uri contains \"{:02}\" and http.request.uri != \"/q{number}\"",
                    number % 100
                ),
            ),
            _ => ("tls", format!("tls.sni != \"q{number}.example.com\"")),
        };
        let _ = writeln!(
            text,
            "[[question]]\nname = \"q{number}\"\nask = \"{ask}\"\nfilter = '{filter}'\noutput = \"/dev/null\"\n"
        );
    }
    text
}
