//! The service unit and the image: what they run is accepted, and the unit is valid for systemd.

#![cfg(unix)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{BINARY, Running, config};

/// A file beside the crates; `None` in a published crate, which has no such folder.
fn packaged(name: &str) -> Option<String> {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(name)).ok()
}

/// What stands after these words at the beginning of a line.
fn value<'a>(text: &'a str, name: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(name));
    found.unwrap_or_else(|| panic!("no {name}")).trim()
}

#[test]
fn the_command_of_the_unit_starts_a_server() {
    let Some(unit) = packaged("zoolet.service") else { return };
    let (file, data) = (config("clientPort=0\n"), tempfile::tempdir().unwrap());
    let arguments = value(&unit, "ExecStart=/usr/local/bin/zoolet serve ")
        .replace("/etc/zoolet/zoo.cfg", file.path().to_str().unwrap());
    let mut arguments: Vec<_> = arguments.split(' ').collect();
    arguments.extend(["--bind", "127.0.0.1:0", "--data-dir", data.path().to_str().unwrap()]);
    let server = Running::start(&arguments);
    assert_eq!(server.stop("TERM").0, Some(0));
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn the_unit_is_valid_for_systemd() {
    let Some(unit) = packaged("zoolet.service") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("zoolet-test.service");
    fs::write(&file, unit.replace("/usr/local/bin/zoolet", BINARY)).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg(&file).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !said.contains("zoolet-test"), "{said}");
        }
        Err(error) => eprintln!("skipped: systemd-analyze: {error}"),
    }
}

#[test]
fn the_command_of_the_image_starts_a_server_that_its_health_check_finds() {
    let Some(image) = packaged("Containerfile") else { return };
    let list = |name: &str| -> Vec<String> { serde_json::from_str(value(&image, name)).unwrap() };
    assert_eq!(list("ENTRYPOINT "), ["/zoolet"]);
    let data = tempfile::tempdir().unwrap();
    let replaced = |argument: String| match argument.as_str() {
        "/data" => data.path().to_str().unwrap().to_owned(),
        "[::]:2181" => "127.0.0.1:0".to_owned(),
        _ => argument,
    };
    let command: Vec<_> = list("CMD ").into_iter().map(replaced).collect();
    assert_eq!(command[0], "serve");
    let server = Running::start(&command[1..].iter().map(String::as_str).collect::<Vec<_>>());
    let check = image.split("CMD ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let check: Vec<String> = serde_json::from_str(check).unwrap();
    let check: Vec<_> = check.iter().map(|word| word.replace("127.0.0.1:2181", &server.addrs[0])).collect();
    let health = Command::new(BINARY).args(&check[1..]).output().unwrap();
    assert!(health.status.success(), "{}", String::from_utf8_lossy(&health.stderr));
}
