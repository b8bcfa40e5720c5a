//! `zoolet serve` with a data directory: what survives, what the start line says, and how it ends.

#![cfg(unix)]

use std::error::Error;
use std::fs;
use std::io::{BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use zoolet_client::{Client, SessionState};

use crate::common::directory::{DataDirectory, names, run};
use crate::common::{BINARY, Running, announced, config, error_of};

type Outcome = Result<(), Box<dyn Error>>;

const BIND: &[&str] = &["--bind", "127.0.0.1:0"];

/// Starts a server with small log files, which are quick to read.
fn start(data_dir: &Path, arguments: &[&str]) -> Running {
    let directory = ["--pre-alloc", "64KiB", "--data-dir", data_dir.to_str().unwrap()];
    Running::start(&[BIND, &directory, arguments].concat())
}

async fn client(server: &Running) -> Result<Client, zoolet_client::Error> {
    Client::connect(server.addrs[0].as_str()).await
}

#[tokio::test]
async fn the_state_survives_a_kill_and_a_clean_end_leaves_a_snapshot() -> Outcome {
    let temp = TempDir::new()?;
    let dir = temp.path().join("data");
    let server = start(&dir, &[]);
    assert_eq!(server.loaded, format!("data in {}: empty", dir.display()));
    client(&server).await?.create("/a", "1").await?;
    assert_eq!(server.stop("KILL").0, None);
    assert_eq!(names(&dir), ["log.1", "snapshot.0"]);

    let server = start(&dir, &[]);
    let expected = "snapshot.0 and 2 transactions, up to zxid 0x2";
    assert_eq!(server.loaded, format!("data in {}: {expected}", dir.display()));
    assert_eq!(client(&server).await?.get_data("/a").await?.0, "1");
    let (code, _, log) = server.stop("TERM");
    assert_eq!((code, log.as_str()), (Some(0), ""));

    let server = start(&dir, &[]);
    assert_eq!(
        server.loaded,
        format!("data in {}: snapshot.3 and 0 transactions, up to zxid 0x3", dir.display())
    );
    Ok(())
}

#[tokio::test]
async fn a_session_goes_on_with_a_server_that_was_killed_and_started_again() -> Outcome {
    let temp = TempDir::new()?;
    let server = start(temp.path(), &[]);
    let addr = server.addrs[0].clone();
    let zk = client(&server).await?;
    zk.create("/here", "").ephemeral().await?;
    let session = zk.session_id();
    let mut states = zk.states();
    server.stop("KILL");

    let _server = Running::start(&["--bind", &addr, "--data-dir", temp.path().to_str().unwrap()]);
    while states.next().await != Some(SessionState::Connected) {}
    assert_eq!(zk.session_id(), session);
    assert!(zk.exists("/here").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn the_directories_of_a_zoo_cfg_keep_the_state() -> Outcome {
    let temp = TempDir::new()?;
    let (data, log) = (temp.path().join("data"), temp.path().join("log"));
    let file =
        config(&format!("dataDir={}\ndataLogDir={}\npreAllocSize=64\n", data.display(), log.display()));
    let arguments = ["--config", file.path().to_str().unwrap(), "--bind", "127.0.0.1:0"];
    let server = Running::start(&arguments);
    client(&server).await?.create("/a", "1").await?;
    server.stop("KILL");
    assert_eq!(names(&data), [".zoolet-log-dir", "snapshot.0"]);
    assert_eq!(names(&log), [".zoolet-data-dir", "log.1"]);
    assert_eq!(fs::metadata(log.join("version-2/log.1"))?.len() % (64 << 10), 16);

    let server = Running::start(&arguments);
    assert_eq!(client(&server).await?.get_data("/a").await?.0, "1");
    let in_memory = Running::start(&[&arguments[..], &["--in-memory"]].concat());
    assert_eq!(in_memory.loaded, "");
    assert!(client(&in_memory).await?.exists("/a").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_not_told_where_its_log_is_does_not_start_without_it() -> Outcome {
    let temp = TempDir::new()?;
    let (data, log) = (temp.path().join("data"), temp.path().join("log"));
    let (data, log) = (data.to_str().unwrap(), log.to_str().unwrap());
    let server = start(Path::new(data), &["--log-dir", log]);
    client(&server).await?.create("/a", "1").await?;
    server.stop("KILL");

    let refused = error_of(&["--bind", "127.0.0.1:0", "--data-dir", data]);
    assert!(
        refused.contains(&format!("had it in {log}; name that directory with --log-dir (dataLogDir)")),
        "{refused}"
    );
    for command in ["dump", "export"] {
        let new = temp.path().join("new");
        let arguments = ["data", command, data, "--to", new.to_str().unwrap()];
        let ran = run(if command == "dump" { &arguments[..3] } else { &arguments });
        assert!(ran.refused(1).contains(&format!("had it in {log}")), "{ran:?}");
    }
    let inspected = run(&["data", "inspect", data]);
    assert_eq!(inspected.code, Some(1), "{inspected:?}");
    assert!(inspected.out.contains(&format!("had it in {log}")), "{inspected:?}");
    let verified = run(&["data", "verify", data]);
    assert_eq!(
        (verified.code, verified.out.contains("a server cannot open it")),
        (Some(1), true),
        "{verified:?}"
    );

    let server = start(Path::new(data), &["--log-dir", log]);
    assert_eq!(client(&server).await?.get_data("/a").await?.0, "1");
    Ok(())
}

/// As `docs/operating.md` says of a restore.
#[tokio::test]
async fn a_client_that_has_seen_more_than_a_restored_backup_is_refused_and_a_new_one_is_not() -> Outcome {
    let temp = TempDir::new()?;
    let (dir, backup) = (temp.path().join("data"), temp.path().join("backup"));
    let server = start(&dir, &[]);
    let zk = client(&server).await?;
    zk.create("/before", "").await?;
    run(&["data", "export", dir.to_str().unwrap(), "--to", backup.to_str().unwrap()]).clean();
    let (_, stat) = (zk.create("/after", "").await?, zk.exists("/after").await?.unwrap());
    server.stop("KILL");

    let restored = start(&backup, &[]);
    assert_eq!(restored.seen(stat.czxid.0), 0, "the connection is closed");
    let zk = client(&restored).await?;
    assert!(zk.exists("/before").await?.is_some() && zk.exists("/after").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_signal_that_is_not_handled_ends_the_server_like_a_crash() -> Outcome {
    for signal in ["USR1", "USR2"] {
        let temp = TempDir::new()?;
        let server = start(temp.path(), &[]);
        client(&server).await?.create("/n-", "").sequential().await?;
        assert_eq!(server.stop(signal).0, None, "{signal}");
        let server = start(temp.path(), &[]);
        assert_eq!(client(&server).await?.get_children("/").await?.0.len(), 2, "{signal}");
        server.stop("KILL");
        let snapshots = names(temp.path()).into_iter().filter(|name| name.starts_with("snapshot."));
        assert_eq!(snapshots.count(), 1, "{signal}");
    }
    Ok(())
}

/// Each makes a new directory below the current one.
#[test]
fn a_directory_that_is_most_likely_not_meant_is_a_warning_that_says_where_it_is() {
    let temp = TempDir::new().unwrap();
    let file = config("dataDir=~/zk\ndataLogDir=\"logs\"\n");
    let mut process = Command::new(BINARY)
        .args(["serve", "--bind", "127.0.0.1:0", "--config", file.path().to_str().unwrap()])
        .current_dir(temp.path())
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (_, loaded) = announced(&mut BufReader::new(process.stdout.take().unwrap())).unwrap();
    assert!(Command::new("kill").arg(process.id().to_string()).status().unwrap().success());
    let mut log = String::new();
    process.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    process.wait().unwrap();
    let here = fs::canonicalize(temp.path()).unwrap().display().to_string();
    assert_eq!(loaded, format!("data in {here}/~/zk: empty"));
    let name = file.path().display();
    let expected = format!(
        "{name}:1: dataDir = ~/zk: ~ is not replaced by the home directory; the directory is {here}/~/zk"
    );
    assert!(log.contains(&expected), "{log}");
    assert!(
        log.contains(&format!("{name}:2: dataLogDir = ")) && log.contains("quotes are a part of the name"),
        "{log}"
    );
}

#[test]
fn an_empty_snapshot_without_a_log_is_served_with_a_question() {
    let temp = TempDir::new().unwrap();
    let server = start(temp.path(), &[]);
    assert_eq!(server.stop("KILL").2, "");
    let log = start(temp.path(), &[]).stop("TERM").2;
    assert!(log.contains("WARN") && log.contains("if its log is elsewhere, stop this server"), "{log}");
}

#[tokio::test]
async fn old_snapshots_and_logs_are_removed_if_the_settings_say_so() -> Outcome {
    let temp = TempDir::new()?;
    let dir = temp.path().join("data");
    for retain in ["all", "2"] {
        for _ in 0..5 {
            let server = start(&dir, &["--retain-snapshots", retain]);
            client(&server).await?.create("/n-", "").sequential().await?;
            server.stop("TERM");
        }
        let snapshots = names(&dir).iter().filter(|name| name.starts_with("snapshot.")).count();
        assert_eq!(snapshots, if retain == "all" { 6 } else { 2 }, "{:?}", names(&dir));
    }
    Ok(())
}

#[test]
fn one_process_at_a_time_uses_a_directory() {
    let temp = TempDir::new().unwrap();
    let _server = start(temp.path(), &[]);
    let message = error_of(&["--bind", "127.0.0.1:0", "--data-dir", temp.path().to_str().unwrap()]);
    assert!(message.contains("is in use by another server; stop that one first"), "{message}");
}

#[test]
fn a_directory_that_cannot_be_used_is_refused_in_one_line() {
    let directory = DataDirectory::sample();
    let damaged = directory.entry("log.1", 4);
    directory.edit("log.1", |bytes| bytes[damaged + 20] ^= 1);
    let path = directory.path().display().to_string();
    let message = error_of(&["--bind", "127.0.0.1:0", "--data-dir", &path]);
    let expected = format!("zoolet: {}, byte {damaged}: the checksum", directory.file("log.1").display());
    assert!(message.starts_with(&expected), "{message}");

    let message = error_of(&["--data-dir", "/proc/no/such"]);
    assert!(message.starts_with("zoolet: cannot create /proc/no/such/version-2: "), "{message}");
    for (text, expected) in [
        ("dataDir=/no/such\ndatadir.autocreate=false", "/no/such"),
        (
            "snapCount=5",
            ":1: snapCount requires a data directory; set dataDir (--data-dir), or remove it to keep",
        ),
        ("dataLogDir=/x", ":1: dataLogDir requires a data directory"),
        ("autopurge.purgeInterval=24", ":1: autopurge.purgeInterval requires a data directory"),
    ] {
        let file = config(text);
        let message = error_of(&["--config", file.path().to_str().unwrap()]);
        assert!(message.contains(expected), "{message}");
    }
    let message = error_of(&["--durability", "sync"]);
    assert_eq!(
        message,
        "zoolet: --durability requires a data directory; set --data-dir (dataDir), or remove it to keep the state in \
         memory"
    );
    let empty = TempDir::new().unwrap();
    let file = config(&format!("dataDir={}\ndb.autocreate=false", empty.path().display()));
    let message = error_of(&["--config", file.path().to_str().unwrap()]);
    assert!(message.contains("has no data of a server"), "{message}");
}

#[test]
fn what_is_no_file_in_the_place_of_the_log_is_refused_and_not_waited_for() {
    for (make, what) in [
        ("mkdir", "it is a directory"),
        ("mkfifo", "it is a pipe, a socket, or a link to nothing"),
        ("ln -s /no/such", "it is a pipe, a socket, or a link to nothing"),
    ] {
        for name in ["log.1", "snapshot.0"] {
            let directory = DataDirectory::sample();
            let file = directory.file(name);
            fs::remove_file(&file).unwrap();
            let script = format!("{make} \"$0\"");
            assert!(Command::new("sh").args(["-c", &script]).arg(&file).status().unwrap().success());
            let path = directory.path().display().to_string();
            let message = error_of(&["--bind", "127.0.0.1:0", "--data-dir", &path]);
            assert!(
                message.starts_with(&format!("zoolet: {}: {what}, and has the name", file.display())),
                "{message}"
            );
            let verified = directory.run("verify", &[]);
            assert!(verified.code == Some(1) && verified.out.contains(what), "{verified:?}");
            assert_eq!(directory.run("inspect", &[]).code, Some(1));
        }
    }
}

#[test]
fn what_recovery_cuts_is_a_warning() {
    let directory = DataDirectory::sample();
    let torn = directory.entry("log.1", 9);
    directory.edit("log.1", |bytes| bytes[torn + 20] ^= 1);
    let server = start(&directory.path(), &[]);
    assert!(server.loaded.ends_with(": snapshot.0 and 9 transactions, up to zxid 0x9"), "{}", server.loaded);
    let log = server.stop("TERM").2;
    let expected = format!("log.1, byte {torn}: ");
    assert!(log.contains("WARN") && log.contains(&expected), "{log}");
}

#[tokio::test]
async fn a_disk_that_fails_ends_the_server_and_what_was_acknowledged_is_there() -> Outcome {
    let temp = TempDir::new()?;
    // Files may have 64 KiB: a disk that is full.
    let script =
        "trap '' XFSZ; ulimit -f 64; exec \"$0\" serve --bind 127.0.0.1:0 --pre-alloc 0 --data-dir \"$1\"";
    let mut process = Command::new("bash")
        .args(["-c", script, BINARY, temp.path().to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (addrs, _) = announced(&mut BufReader::new(process.stdout.take().unwrap()))?;
    let zk = Client::connect(addrs[0].as_str()).await?;
    let mut acknowledged = 0;
    while zk.create("/n-", vec![b'x'; 1_000]).sequential().await.is_ok() {
        acknowledged += 1;
    }
    assert_eq!(process.wait()?.code(), Some(1));
    let mut log = String::new();
    process.stderr.take().unwrap().read_to_string(&mut log)?;
    let last = log.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("zoolet: the data directory can no longer be written, so the server has stopped: "),
        "{log}"
    );
    assert!(last.contains("log.1: ") && last.ends_with("; what it has acknowledged is there"), "{log}");

    let dump = run(&["data", "dump", temp.path().to_str().unwrap()]);
    let found = dump.out.lines().filter(|line| line.starts_with("/n-")).count();
    assert!(acknowledged > 10 && found >= acknowledged, "{found} of {acknowledged}: {dump:?}");
    Ok(())
}
