//! Prints how many rules of files are understood, and why others are not. With `-v` each refused rule, too.

use weir_rules::{Coverage, RuleFile, Variables, load};

fn main() -> std::io::Result<()> {
    let (mut files, mut is_verbose) = (vec![], false);
    for path in std::env::args().skip(1) {
        if path == "-v" {
            is_verbose = true;
            continue;
        }
        let bytes = std::fs::read(&path)?;
        files.push((path, String::from_utf8_lossy(&bytes).into_owned()));
    }
    let files: Vec<_> = files.iter().map(|(name, text)| RuleFile { name, text }).collect();
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let started = std::time::Instant::now();
    let set = load(&files, &Variables::default(), threads);
    eprintln!("{:.1} ms on {threads} threads", started.elapsed().as_secs_f64() * 1e3);
    if is_verbose {
        set.refusals.iter().for_each(|refused| println!("{}", refused.render(false)));
        set.replacements().for_each(|one| println!("warning: {}", one.message));
    }
    print!("{}", Coverage::of(&set));
    Ok(())
}
