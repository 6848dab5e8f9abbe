//! `weir fmt`: which files are written, what is printed, the exit status.

use crate::cli::{answer, scratch, text, weir};
use std::io::Write;
use std::process::{Command, Output, Stdio};

const UNTIDY: &str = "\
//! Untidy


protocol p {

  header{
    a:u8   b : u8 // why
  }
    payload = rest
    let c = a
    let d = a
    let m = a
    let e = a
    let f = a
    let g = a
    let h=a
}";

const TIDY: &str = "\
//! Untidy

protocol p {
    header {
        a: u8   b: u8 // why
    }
    payload = rest
    let c = a
    let d = a
    let m = a
    let e = a
    let f = a
    let g = a
    let h = a
}
";

const CHANGES: &str = "\
@@ -1,11 +1,9 @@
 //! Untidy
\x20
-
 protocol p {
-
-  header{
-    a:u8   b : u8 // why
-  }
+    header {
+        a: u8   b: u8 // why
+    }
     payload = rest
     let c = a
     let d = a
@@ -13,5 +11,5 @@
     let e = a
     let f = a
     let g = a
-    let h=a
-}
\\ No newline at end of file
+    let h = a
+}
";

/// Creates a file with this content and returns its name.
fn file(name: &str, content: &[u8]) -> String {
    let path = scratch(name);
    std::fs::write(&path, content).expect("a temporary file");
    path.to_str().unwrap().to_string()
}

fn read(name: &str) -> String {
    text(&std::fs::read(name).expect("a temporary file"))
}

fn piped(args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary was built for this test");
    child.stdin.take().expect("it is piped").write_all(input).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn files_are_laid_out_in_place() {
    let (one, two) = (file("fmt-one.weir", UNTIDY.as_bytes()), file("fmt-two.weir", TIDY.as_bytes()));
    let before = std::fs::metadata(&two).unwrap().modified().unwrap();
    assert_eq!(answer(&["fmt", &one, &two], 0), "");
    assert_eq!((read(&one).as_str(), read(&two).as_str()), (TIDY, TIDY));
    assert_eq!(std::fs::metadata(&two).unwrap().modified().unwrap(), before, "it was as it should be");
    assert_eq!(answer(&["fmt", "--check", &one, &two], 0), "");
}

#[test]
fn check_writes_nothing_and_prints_a_diff() {
    let (one, two) = (file("fmt-check.weir", UNTIDY.as_bytes()), file("fmt-checked.weir", TIDY.as_bytes()));
    let said = answer(&["fmt", "--check", &two, &one], 1);
    assert_eq!(read(&one), UNTIDY);
    assert_eq!(said, format!("--- {one}\n+++ {one}, laid out\n{CHANGES}"));
}

#[test]
fn standard_input_goes_to_standard_output() {
    for args in [&["fmt"][..], &["fmt", "-"]] {
        let output = piped(args, UNTIDY.as_bytes());
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), TIDY), "{output:?}");
    }
    let checked = piped(&["fmt", "--check"], UNTIDY.as_bytes());
    assert_eq!(checked.status.code(), Some(1));
    assert!(text(&checked.stdout).starts_with("--- standard input\n"), "{checked:?}");
    assert_eq!(piped(&["fmt", "--check", "-"], TIDY.as_bytes()).status.code(), Some(0));
    assert_eq!(piped(&["fmt"], b"").status.code(), Some(0));
}

#[test]
fn what_cannot_be_read_stays_and_the_others_are_laid_out() {
    let wrong = "protocol p {\nheader { a u8 } }\n";
    let wrong_file = file("fmt-wrong.weir", wrong.as_bytes());
    let binary = file("fmt-binary.weir", b"protocol p { \xff }");
    let right = file("fmt-right.weir", UNTIDY.as_bytes());
    let output = weir(&["fmt", &wrong_file, "no-such-file.weir", &binary, &right]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("error[W0004]") && said.contains("fmt-wrong.weir:2:12") && said.contains("^^"),
        "{said}"
    );
    assert!(said.contains("no-such-file.weir") && said.contains("valid UTF-8"), "{said}");
    assert_eq!((read(&wrong_file).as_str(), read(&right).as_str()), (wrong, TIDY));
    let output = piped(&["fmt"], wrong.as_bytes());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{output:?}");
}
