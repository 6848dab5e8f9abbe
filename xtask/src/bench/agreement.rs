//! Agreement with tshark: the bytes of all connections and the contents of all files in the captures of the
//! project and of `../shared/traces`. Fails if the differences are not the known ones. Its tables are in
//! `docs/conformance.md`, because they measure no time.

use std::fmt::Write;
use std::path::Path;

use weir_testing::tshark::{Compared, KNOWN, ObjectKind, captures, follow, known, objects};

use super::progress;
use crate::shell::{Result, read, root, write};

pub const TITLE: &str = "Agreement with tshark";

const BEGIN: &str = "<!-- agreement: cargo xtask bench \"Agreement with tshark\" -->\n";
const END: &str = "<!-- end of agreement -->\n";

/// Compares, and prints the tables. Writes them, too, unless it is a `dry` run.
pub fn run(weir: &Path, scratch: &Path, dry: bool) -> Result {
    match tables(weir, scratch)? {
        Some(tables) => {
            println!("### {TITLE}\n\n{tables}");
            if dry { Ok(()) } else { publish(&tables) }
        }
        None => {
            println!("not compared: {TITLE} (tshark, python3)");
            Ok(())
        }
    }
}

/// Puts the tables into their page.
fn publish(tables: &str) -> Result {
    let page = root().join("docs/conformance.md");
    let text = read(&page)?;
    let parts = text.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or(format!("{} has no lines {BEGIN}{END}", page.display()))?;
    write(page, format!("{head}{BEGIN}\n{tables}\n{END}{tail}"))
}

/// The tables: results, and the number of differences by reason; `None` if tshark or Python is not installed.
fn tables(weir: &Path, scratch: &Path) -> Result<Option<String>> {
    let mut all = captures(&root().join("examples"));
    all.extend(captures(&root().join("../shared/traces")));
    let mut text = format!(
        "{} captures.\n\n| compared | equal | with gaps, not compared | different |\n|---|--:|--:|--:|\n",
        all.len()
    );
    let mut reasons = String::new();
    let mut wrong = vec![];
    let mut compare = |what: &'static str, one: &dyn Fn(&Path) -> Option<Compared>| -> Option<()> {
        let mut total = Compared::default();
        let mut by_reason = vec![(0, 0); KNOWN.len()];
        for (number, capture) in all.iter().enumerate() {
            progress(&format!("{TITLE} · {what} · {number} of {}", all.len()));
            let compared = one(capture)?;
            let found = compared.different.len();
            match known(what, capture) {
                Some((index, count)) => {
                    by_reason[index].0 += 1;
                    by_reason[index].1 += found;
                    if found != count {
                        wrong.push(format!(
                            "{}: {what}: {found} differences instead of {count}",
                            capture.display()
                        ));
                    }
                }
                None => wrong.extend(
                    compared.different.iter().map(|text| format!("{}: {what}: {text}", capture.display())),
                ),
            }
            total.add(compared);
        }
        let Compared { equal, with_gaps, different } = total;
        let _ = writeln!(text, "| {what} | {equal} | {with_gaps} | {} |", different.len());
        for ((captures, count), (.., why)) in
            by_reason.iter().zip(KNOWN).filter(|((captures, _), _)| *captures > 0)
        {
            let _ = writeln!(reasons, "| {what} | {why} | {captures} | {count} |");
        }
        Some(())
    };
    let folder = scratch.join("tshark");
    let done = compare("follow", &|capture| follow(weir, capture)).and_then(|()| {
        ObjectKind::ALL
            .into_iter()
            .try_for_each(|kind| compare(kind.name(), &|capture| objects(weir, capture, kind, &folder)))
    });
    progress("");
    if done.is_none() {
        return Ok(None);
    }
    if !wrong.is_empty() {
        return Err(format!("{TITLE}:\n{}", wrong.join("\n")));
    }
    let head = "\n| compared | reason | captures | differences |\n|---|---|--:|--:|\n";
    Ok(Some(format!("{text}{head}{reasons}")))
}
