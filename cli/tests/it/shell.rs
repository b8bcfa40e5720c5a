//! Commands on a server as they are run: exit codes, what goes where, and the shell.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{BINARY, Running};

/// A server with a few znodes.
fn server() -> (Running, String) {
    let server = Running::start(&["--bind", "127.0.0.1:0", "--four-letter-words", "ruok,mntr"]);
    let address = server.addrs[0].clone();
    for (path, data) in [("/jobs", ""), ("/jobs/a", "first"), ("/jobs/b", "second")] {
        assert_eq!(run(&address, &["create", path, data]), (0, format!("{path}\n"), String::new()));
    }
    (server, address)
}

pub fn shell_command(address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments).env("ZOOKEEPER", address).env_remove("ZOOLET_AUTH").stdin(Stdio::null());
    command
}

pub fn ended(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The exit code, stdout and stderr.
fn run(address: &str, arguments: &[&str]) -> (i32, String, String) {
    ended(shell_command(address, arguments).output().unwrap())
}

/// As [`run`], with a standard input.
pub fn run_with(address: &str, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut child = shell_command(address, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    ended(child.wait_with_output().unwrap())
}

#[test]
fn the_exit_code_says_why_a_command_failed_and_stdout_has_nothing_but_the_answer() {
    let (_server, address) = server();
    assert_eq!(run(&address, &["get", "/jobs/a"]), (0, "first".to_owned(), String::new()));
    run(&address, &["create", "/closed", "--acl", "world:anyone:a"]);
    for (arguments, code) in [
        (&["get", "/absent"][..], 1),
        (&["grep", "nothing", "/jobs"], 1),
        (&["get"], 2),
        (&["get", "/jobs", "--frobnicate"], 2),
        (&["create", "-e", "/e"], 2),
        (&["set", "/jobs", "x", "--read-only"], 2),
        (&["rm", "-r", "/jobs"], 2),
        (&["get", "/closed"], 3),
        (&["create", "/jobs"], 4),
        (&["set", "/jobs", "x", "--if-version", "9"], 4),
        (&["get", "/", "--server", "127.0.0.1:1", "--timeout", "300ms"], 5),
        (&["diff", "/", "/x", "--to-server", "127.0.0.1:1", "--timeout", "300ms"], 5),
        (&["set", "/jobs", "--file", "/absent/file"], 6),
        (&["get", "/", "--auth-file", "/absent/file"], 6),
    ] {
        let (seen, out, err) = run(&address, arguments);
        assert_eq!((seen, out.as_str()), (code, ""), "{arguments:?}: {err}");
        assert!(err.starts_with("zoolet: ") && err.lines().count() == 1, "{arguments:?}: {err}");
    }
    let (_, _, err) = run(&address, &["cp", "/", "/x", "--to-server", "127.0.0.1:1", "--timeout", "300ms"]);
    assert!(err.contains("cp: no session at 127.0.0.1:1 within 300ms"), "{err}");
    let (_, _, err) = run(&address, &["get", "/absent"]);
    assert_eq!(
        err,
        format!("zoolet: get: /absent: no such znode (server {address}); `ls /` shows what is there\n")
    );
}

#[test]
fn the_server_comes_from_a_flag_or_a_variable_with_a_chroot_and_credentials_from_a_file() {
    let (_server, address) = server();
    let inside = format!("{address}/jobs");
    assert_eq!(run("127.0.0.1:1", &["ls", "/", "--server", &inside]).1, "a\nb\n");
    assert_eq!(run(&inside, &["get", "/b"]).1, "second");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "# mine\ndigest:bob:secret\n").unwrap();
    let auth = file.path().to_str().unwrap();
    assert_eq!(run(&address, &["create", "/s", "x", "--acl", "auth::cdrwa", "--auth-file", auth]).0, 0);
    assert_eq!(run(&address, &["get", "/s"]).0, 3);
    assert_eq!(run(&address, &["get", "/s", "--auth-file", auth]).1, "x");
    let by_variable =
        shell_command(&address, &["get", "/s"]).env("ZOOLET_AUTH", "digest:bob:secret").output().unwrap();
    assert_eq!(ended(by_variable).1, "x");
}

#[test]
fn a_cluster_has_a_name_and_settings_in_a_file() {
    let (_server, address) = server();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::create_dir(path("zoolet")).unwrap();
    fs::write(path("auth"), "digest:bob:secret\n").unwrap();
    let named = |arguments: &[&str]| {
        ended(shell_command("@prod", arguments).env("XDG_CONFIG_HOME", folder.path()).output().unwrap())
    };
    let (code, _, err) = named(&["ls", "/"]);
    assert!(code == 2 && err.contains("it has lines such as: prod = "), "{err}");
    let file = format!(
        "prod = {address}/jobs\nprod.auth-file = {}\nsafe = {address}\nsafe.read-only = true\n",
        path("auth")
    );
    fs::write(path("zoolet/clusters"), file).unwrap();
    assert_eq!(named(&["ls", "/"]).1, "a\nb\n");
    assert!(named(&["whoami"]).1.contains("digest:bob"));
    assert_eq!(named(&["create", "/x", "--server", "@safe"]).0, 2);
    assert_eq!(named(&["get", "/jobs/a", "--server", "@safe"]).1, "first");
    assert_eq!(named(&["cp", "/a", "/jobs/c", "--to-server", "@safe"]).0, 2);
    assert_eq!(named(&["diff", "/a", "/jobs/a", "--to-server", "@safe"]), (0, String::new(), String::new()));
    let (code, _, err) = named(&["ls", "/", "--server", "@tset"]);
    assert!(code == 2 && err.contains("has no such cluster, but prod, safe"), "{err}");
}

#[test]
fn standard_input_is_data_and_a_reader_may_leave() {
    let (_server, address) = server();
    assert_eq!(run_with(&address, &["set", "/jobs/a", "-"], b"\x00lines\n").0, 0);
    let got = shell_command(&address, &["get", "/jobs/a"]).output().unwrap();
    assert_eq!(got.stdout, b"\x00lines\n");
    let (code, out, _) = run_with(&address, &["multi"], b"create /m 1\nset /jobs/b 2\n");
    assert_eq!((code, out.as_str()), (0, "/m\n"));
    let object: Value = serde_json::from_str(&run(&address, &["stat", "--json", "/m"]).1).unwrap();
    assert_eq!(object["dataLength"], 1);

    let large = tempfile::NamedTempFile::new().unwrap();
    fs::write(large.path(), "x".repeat(200_000)).unwrap();
    assert_eq!(run(&address, &["set", "/m", "--file", large.path().to_str().unwrap()]).0, 0);
    let mut child = shell_command(&address, &["get", "/m"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(ended(child.wait_with_output().unwrap()), (0, String::new(), String::new()));
}

#[test]
fn a_shell_without_a_terminal_runs_lines_until_one_fails() {
    let (_server, address) = server();
    let script = b"# a comment\ncd /jobs\n\nls\ncreate -e mine\nget mine\nget absent\nls\n";
    let (code, out, err) = run_with(&address, &["sh"], script);
    assert_eq!((code, out.as_str()), (1, "a\nb\n/jobs/mine\n\n"), "{err}");
    assert!(err.contains("get: /jobs/absent: no such znode"), "{err}");
    // Its session has ended with it.
    assert_eq!(run(&address, &["ls", "/jobs"]).1, "a\nb\n");
    assert_eq!(
        run_with(&address, &["sh"], b"ls /jobs\nquit\nget absent\n"),
        (0, "a\nb\n".to_owned(), String::new())
    );
}

#[test]
fn lines_are_taken_as_they_are_typed_and_each_answer_ends_a_line() {
    let (_server, address) = server();
    let script = b"set /jobs/a {\"host\":\"db1\",\"port\":-1}\nset /jobs/b -5\nget /jobs/a\nget /jobs/b\n";
    let out = "{\"host\":\"db1\",\"port\":-1}\n-5\n".to_owned();
    assert_eq!(run_with(&address, &["sh"], script), (0, out, String::new()));
}

#[test]
fn who_types_a_name_of_zkcli_is_told_the_one_here() {
    let (code, _, err) = run("127.0.0.1:1", &["deleteall", "/jobs"]);
    assert_eq!(
        (code, err.contains("there is no command deleteall; it is `zoolet rm -r` here")),
        (2, true),
        "{err}"
    );
}

#[test]
fn words_of_all_servers_stand_side_by_side_and_need_no_session() {
    let (server, address) = server();
    let (other, second) = self::server();
    let both = format!("{address},{second}/chroot");
    let (code, out, err) = run(&both, &["words", "mntr"]);
    assert_eq!(code, 0, "{err}");
    let row = out.lines().find(|line| line.starts_with("zk_server_state")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["zk_server_state", "standalone", "standalone"]);
    let (code, out, err) = run(&format!("{address},127.0.0.1:1"), &["words", "ruok", "--json"]);
    assert_eq!((code, out.lines().count()), (5, 2), "{err}");
    let said: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        said.iter().any(|said| said["answer"] == "imok") && said.iter().any(|said| said["error"].is_string()),
        "{out}"
    );
    let (code, out, err) = run(&both, &["words", "stat"]);
    assert_eq!(
        (code, out.matches("not in the whitelist").count()),
        (3, 2),
        "a refusal is an answer: {out}{err}"
    );
    assert!(err.starts_with("zoolet: words: 2 of 2 servers refused stat"), "{err}");
    let (code, _, err) = run(&format!("{address},127.0.0.1:1"), &["words", "stat"]);
    assert_eq!(code, 5, "{err}");
    assert!(err.starts_with("zoolet: words: 1 of 2 servers did not answer, and 1 refused stat"), "{err}");
    drop((server, other));
}

#[test]
fn an_error_of_a_script_names_its_line() {
    let (_server, address) = server();
    let (code, _, err) = run_with(&address, &["sh"], b"# first\n\nls /jobs\nget /absent\n");
    assert_eq!(code, 1);
    assert!(err.starts_with("zoolet: standard input, line 4: get: /absent: no such znode"), "{err}");
}

#[test]
fn a_shell_goes_to_another_cluster() {
    let (_server, address) = server();
    let (_other, second) = server();
    assert_eq!(run(&second, &["create", "/only-here", ""]).0, 0);
    let script = format!(
        "cd /jobs\nconnect {second}/jobs\npwd\nls\nconnect {second}\nls\nconfig\nconnect {second}/jobs\nconfig\n"
    );
    let (code, out, err) = run_with(&address, &["sh"], script.as_bytes());
    assert_eq!((code, out.as_str()), (0, "/\na\nb\njobs\nonly-here\nzookeeper\n"), "{err}");
    let script = format!("connect {second}\nconnect 127.0.0.1:1\n");
    let (code, _, err) = run_with(&address, &["sh", "--timeout", "300ms"], script.as_bytes());
    assert_eq!(code, 5);
    assert!(err.starts_with("zoolet: standard input, line 2: connect: "), "{err}");

    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("zoolet")).unwrap();
    fs::write(folder.path().join("zoolet/auth"), "digest:bob:secret\n").unwrap();
    let auth = folder.path().join("zoolet/auth");
    let clusters = format!(
        "prod = {address}\nprod.auth-file = {}\nprod.read-only = true\nother = {second}\n",
        auth.display()
    );
    fs::write(folder.path().join("zoolet/clusters"), clusters).unwrap();
    let named = |script: &str| {
        let mut child = shell_command("@prod", &["sh"])
            .env("XDG_CONFIG_HOME", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        ended(child.wait_with_output().unwrap())
    };
    let (code, out, err) = named("whoami\nconnect @other\nwhoami\ncreate /x\n");
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.matches("digest:bob").count(), 1, "the credentials of a cluster are for itself: {out}");
    let (code, _, err) = named("connect @other\nconnect @prod\ncreate /y\n");
    assert_eq!(code, 2);
    assert!(err.contains("line 3: create: this is a shell that only reads"), "{err}");
}

#[test]
fn a_flag_or_a_line_of_the_shell_in_the_wrong_place_is_told_where_it_goes() {
    let (code, _, err) = run("127.0.0.1:1", &["--server", "zk1", "get", "/a"]);
    assert_eq!(code, 2);
    assert!(
        err.contains(
            "--server goes after the command, as in `zoolet get /a --server`; see `zoolet get --help`"
        ),
        "{err}"
    );
    let (code, _, err) = run("127.0.0.1:1", &["addauth", "digest", "bob:secret"]);
    assert_eq!((code, err.as_str()), (2, "zoolet: addauth is for a shell: type it in `zoolet sh`\n"));
    let (_, out, _) = run("127.0.0.1:1", &["--help"]);
    assert!(out.contains("zoolet get /config --server zk1:2181"), "{out}");
}

#[test]
fn every_shell_has_a_script_that_completes_commands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, err) = run("127.0.0.1:1", &["completions", shell]);
        assert_eq!((code, err.as_str()), (0, ""), "{shell}");
        for word in ["child-count", "serve", "if-version", "to-server"] {
            assert!(out.contains(word), "{shell}: {word}");
        }
    }
    let (code, out, err) = run("127.0.0.1:1", &["completions", "tcsh"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("possible values: bash"), "{err}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_command() {
    let (_server, address) = server();
    let mut child = shell_command(&address, &["watch", "/jobs"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    notes.read_line(&mut line).unwrap();
    assert!(line.starts_with("watching 1 znode at /jobs"), "{line}");
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    notes.read_to_string(&mut line).unwrap();
    assert!(line.ends_with("zoolet: interrupted\n"), "{line}");
}

/// A shell at a pseudo-terminal.
#[cfg(target_os = "linux")]
mod terminal {
    use std::fs::{File, OpenOptions};
    use std::process::Child;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;
    use std::time::Duration;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use tempfile::TempDir;

    use super::*;

    /// How long the screen may take to show something.
    const PATIENCE: Duration = Duration::from_secs(60);

    struct Terminal {
        ours: File,
        output: Receiver<Vec<u8>>,
        child: Child,
        seen: String,
        _home: TempDir,
    }

    impl Terminal {
        fn start(address: &str) -> Self {
            Self::run(&["sh", address], &[])
        }

        /// The binary with these arguments and variables.
        fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
            let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
            grantpt(&ours).unwrap();
            unlockpt(&ours).unwrap();
            let name = ptsname(&ours, Vec::new()).unwrap();
            let theirs = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
            let home = tempfile::tempdir().unwrap();
            // As a terminal of its own, from which Ctrl-C is a signal.
            let child = Command::new("setsid")
                .args(["--ctty", "--wait", BINARY])
                .args(arguments)
                .env_remove("NO_COLOR")
                .envs(variables.iter().copied())
                .env("HOME", home.path())
                .env("TERM", "xterm")
                .env_remove("XDG_STATE_HOME")
                .stdin(theirs.try_clone().unwrap())
                .stdout(theirs.try_clone().unwrap())
                .stderr(theirs)
                .spawn()
                .unwrap();
            let ours = File::from(ours);
            let mut reader = ours.try_clone().unwrap();
            let (sender, output) = channel();
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                while let Ok(read) = reader.read(&mut buffer) {
                    if sender.send(buffer[..read].to_vec()).is_err() {
                        return;
                    }
                }
            });
            Self { ours, output, child, seen: String::new(), _home: home }
        }

        fn types(&mut self, text: &str) {
            self.ours.write_all(text.as_bytes()).unwrap();
        }

        /// Reads until the screen has shown `text`; returns what was before it.
        fn shows(&mut self, text: &str) -> String {
            loop {
                if let Some(at) = self.seen.find(text) {
                    let rest = self.seen.split_off(at + text.len());
                    return std::mem::replace(&mut self.seen, rest);
                }
                let Ok(bytes) = self.output.recv_timeout(PATIENCE) else {
                    panic!("the screen does not show {text:?}, but {:?}", self.seen);
                };
                self.seen.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }

    impl Drop for Terminal {
        fn drop(&mut self) {
            // It has ended, unless the test has failed.
            let _ = self.child.kill();
        }
    }

    #[test]
    fn lines_are_completed_and_ctrl_c_ends_the_command_and_not_the_shell() {
        let (_server, address) = server();
        let mut terminal = Terminal::start(&address);
        terminal.shows(&format!("{address} /> "));
        terminal.types("cd /jo\t\r");
        terminal.shows("/jobs> ");
        terminal.types("chil\t a\r");
        terminal.shows("child-count");
        terminal.shows("\n0");
        terminal.shows("/jobs> ");
        terminal.types("watch -R .\r");
        terminal.shows("watching 3 znodes at /jobs");
        assert_eq!(run(&address, &["set", "/jobs/a", "changed"]).0, 0);
        terminal.shows("+changed");
        terminal.types("\u{3}");
        terminal.shows("interrupted");
        terminal.shows("/jobs> ");
        terminal.types("rm -r a\r");
        terminal.shows("[y/N] ");
        terminal.types("n\r");
        terminal.shows("/jobs> ");
        terminal.types("gte a\r");
        terminal.shows("unrecognized subcommand 'gte'");
        terminal.shows("/jobs> ");
        // The last line but one, again.
        terminal.types("\u{1b}[A\u{1b}[A\r");
        terminal.shows("Delete /jobs/a and the 0 znodes below it? [y/N] ");
        terminal.types("y\r");
        terminal.shows("1 znode deleted");
        terminal.shows("/jobs> ");
        terminal.types("\u{4}");
        assert!(terminal.child.wait().unwrap().success());
        assert_eq!(run(&address, &["ls", "/jobs"]).1, "b\n");
    }

    #[test]
    fn colours_are_for_a_terminal_that_wants_them() {
        let (_server, address) = server();
        assert_eq!(run(&address, &["create", "/jobs/a/part", "x"]).0, 0);
        let mut terminal = Terminal::start(&address);
        terminal.shows("/> ");
        terminal.types("ls /jobs\r");
        terminal.shows("\u{1b}[1m\u{1b}[34ma\u{1b}[0m\r\nb\r\n");
        terminal.shows("/> ");
        terminal.types("tree /jobs\r");
        terminal.shows("\u{2514}\u{2500}\u{2500} part");
        terminal.shows("/> ");
        terminal.types("diff /jobs/a /jobs/b\r");
        terminal.shows("\u{1b}[31m- /part\u{1b}[0m");
        terminal.shows("/> ");
        terminal.types("get /absent\r");
        terminal.shows("\u{1b}[31mzoolet: get: /absent: no such znode");
        terminal.shows("/> ");
        terminal.types("\u{4}");
        terminal.child.wait().unwrap();

        let mut failing = Terminal::run(&["get", "/absent", "--server", &address], &[]);
        failing.shows("\u{1b}[31mzoolet: get: /absent");
        let plain = [("NO_COLOR", "1")];
        let mut listing = Terminal::run(&["ls", "/jobs", "--server", &address], &plain);
        assert_eq!(listing.shows("b\r\n"), "a\r\nb\r\n");
        let mut failing = Terminal::run(&["get", "/absent", "--server", &address], &plain);
        assert_eq!(failing.shows("zoolet: get: /absent"), "zoolet: get: /absent");
        for line in ["ls /jobs", "ls -l /jobs", "tree /", "find /", "diff /jobs/a /jobs/b", "get /absent"] {
            let (_, out, err) = run(&address, &line.split(' ').collect::<Vec<_>>());
            assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "{line}: {out}{err}");
        }
    }

    #[test]
    fn an_identity_comes_again_in_the_next_session() {
        let (_server, address) = server();
        let mut terminal = Terminal::start(&address);
        terminal.shows("/> ");
        terminal.types("addauth digest bob:secret\r");
        terminal.shows("/> ");
        terminal.types("create /s hidden --acl auth::cdrwa\r");
        terminal.shows("\n/s\r\n");
        // The server ends the session for it.
        terminal.shows("/> ");
        terminal.types("addauth nonsense x\r");
        terminal.shows("zoolet: addauth: ");
        terminal.shows("/> ");
        terminal.types("get /s\r");
        terminal.shows("the session is over (AuthFailed), with its ephemerals: opening another");
        terminal.shows("hidden");
        terminal.shows("/> ");
        terminal.types("history 3\r");
        // A line with a secret is not remembered.
        terminal.shows("    1  create /s hidden --acl auth::cdrwa\r\n    2  get /s\r\n");
        terminal.shows("/> ");
        terminal.types("connect\r");
        terminal.shows("/> ");
        terminal.types("get /s\r");
        terminal.shows("not authorized");
        terminal.shows("/> ");
        terminal.types("\u{4}");
        assert!(terminal.child.wait().unwrap().success());
    }
}
