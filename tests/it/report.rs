//! What a test gets to read when it fails, and that it gets nothing to read when it does not.

use std::path::PathBuf;
use std::process::{Command, Output};

fn run(example: &str) -> Output {
    let tests = std::env::current_exe().expect("this test");
    let built: PathBuf =
        tests.parent().and_then(|deps| deps.parent()).expect("a build directory").join("examples");
    let mut command = Command::new(built.join(example));
    command
        .env_remove("ZOOLET_SEED")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("an example that was built with this test")
}

#[test]
fn a_test_that_fails_prints_what_a_stranger_needs_to_find_the_mistake() {
    let output = run("failing");
    assert!(!output.status.success());
    let stderr = String::from_utf8(output.stderr).expect("text");
    let report = &stderr[stderr.find("---").expect("a report")..];
    insta::assert_snapshot!("failing", report);
}

#[test]
fn a_test_that_passes_prints_nothing() {
    let output = run("test_server");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_test_that_stalls_prints_what_waits_and_what_to_do() {
    let output = run("stalled");
    assert!(!output.status.success());
    let stderr = String::from_utf8(output.stderr).expect("text");
    let (waits, rest) = stderr.split_once("--- the server when the test failed").expect("a report");
    insta::assert_snapshot!("stalled", waits);
    let (_, panic) = rest.split_once("--- end of the server's report").expect("its end");
    assert!(
        panic.contains("acquire /locks/job, timeout 1s, at examples/stalled.rs:17, waits while"),
        "{panic}"
    );
    assert!(!panic.contains("---"), "there is one report: {panic}");
}
