//! Memory that a run asks for at once is checked together, before anything is taken.

use crate::cli::{example, text, weir};
use std::process::Command;

#[test]
fn what_the_machine_does_not_have_is_refused_with_the_figures() {
    let file = example();
    for (args, parts) in [
        (
            &["record", "-i", "lo", "--ring", "900G"][..],
            &["--ring 966 GB", "--buffer 67.1 MB for each of 1"][..],
        ),
        (&["flows", "-i", "lo", "--buffer", "4000M", "-j", "250"], &["--buffer 4.19 GB for each of 250"]),
        (&["flows", "-i", "lo", "--memory", "900G", "-j", "2"], &["each of 2", "+ --memory 966 GB"]),
        (&["flows", "-r", file.to_str().unwrap(), "--memory", "900G"], &["--memory 966 GB"]),
        (&["zeek", "-i", "lo", "-i", "eth9", "--buffer", "4000M", "-j", "250"], &["for each of 500"]),
    ] {
        let output = weir(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("of memory, and ") && said.contains("are there ("), "{args:?}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{args:?}: {said}");
    }
}

/// Makes a group with a limit of 301 MB, in either version of the interface, and runs the command there.
const IN_A_GROUP: &str = "
root=/sys/fs/cgroup; limit=memory.max
if [ -d $root/memory ]; then root=$root/memory; limit=memory.limit_in_bytes; fi
group=$root/weir-test-$$
mkdir $group 2>/dev/null && echo 301000000 > $group/$limit && echo $$ > $group/cgroup.procs || exit 77
\"$@\"; status=$?
echo $$ > $root/cgroup.procs; rmdir $group; exit $status";

#[test]
fn the_limit_of_a_control_group_counts() {
    let run = |args: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", IN_A_GROUP, "sh", env!("CARGO_BIN_EXE_weir")]).args(args);
        let output = command.output().expect("sh runs");
        (output.status.code(), text(&output.stderr))
    };
    let (file, recorder) = (example(), format!("claims-{}", std::process::id()));
    let file = ["flows", "-r", file.to_str().unwrap(), "-o", "/dev/null", "--memory"];
    let (status, said) = run(&[&file[..], &["400M"]].concat());
    if status == Some(77) {
        return eprintln!("skipped: it needs root and control groups that may be made: {said}");
    }
    assert!(status == Some(2) && said.contains("300 MB are there"), "{status:?} {said}");
    assert_eq!(run(&[&file[..], &["200M"]].concat()), (Some(0), String::new()));
    let (status, said) = run(&["record", "-i", "lo", "--name", &recorder, "--ring", "256M"]);
    assert!(status == Some(2) && said.contains("(the limit of /sys/fs/cgroup/"), "{status:?} {said}");
}
