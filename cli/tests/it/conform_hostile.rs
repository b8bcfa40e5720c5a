//! `zoolet conform` against servers that say anything, and on a machine that gives it too little: it ends in time, says why, and passes
//! nobody.

#![cfg(unix)]

use std::fs;
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use tempfile::TempDir;
use zoolet_proto::{ErrorCode, EventType, NameList, OpCode, Reply, ReplyHeader, Stat, Xid, Zxid};

use crate::common::directory::Ran;
use crate::common::hostile::{Answer, Asked, before};
use crate::common::{BINARY, Running};

/// Far longer than any of it takes, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(60);

fn server() -> Running {
    Running::start(&["--bind", "127.0.0.1:0"])
}

/// Runs a command line of the shell with the binary as `$0`. It must end in time and not succeed.
fn shell(script: &str, arguments: &[&str]) -> Ran {
    let mut command = assert_cmd::Command::new("sh");
    command.args(["-c", script, BINARY]).args(arguments).env_remove("RUST_LOG").timeout(LIMIT);
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let ran = Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
    assert!(matches!(ran.code, Some(1 | 2)), "{ran:?}");
    ran
}

/// Two cases that a good server passes.
fn cases(temp: &TempDir) -> String {
    let file = temp.path().join("own.case");
    let text = "case own/a\nfact A znode can be created\nA create ~/n -> ok path=~/n\n\n\
                case own/b\nfact And another one\nA create ~/n -> ok path=~/n\n";
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Judges a good server behind a proxy that changes its replies.
fn judge(rule: impl FnMut(&Asked, &[u8]) -> Answer + Send + 'static) -> Ran {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let address = before(&server.addrs[0], rule);
    let options = ["--timeout", "300ms", "--jobs", "1"];
    shell("exec $0 \"$@\"", &[&["conform", &address, "--cases", &cases(&temp)], &options[..]].concat())
}

fn names(names: &[&str]) -> Answer {
    let len = names.iter().map(|name| 4 + name.len()).sum::<usize>();
    Answer::Instead(Reply::Children(NameList::with_encoded_len(4 + len, names.iter().copied())))
}

fn when(op: OpCode, answer: impl Fn(&Asked) -> Answer + Send) -> impl FnMut(&Asked, &[u8]) -> Answer + Send {
    move |asked, _| if asked.op == Some(op) { answer(asked) } else { Answer::Honest }
}

#[test]
fn a_name_that_no_znode_can_have_is_a_failure_and_not_followed() {
    for name in ["", ".", "..", "/", "../../a", "a\0b"] {
        let ran = judge(when(OpCode::GetChildren, move |_| names(&[name])));
        let reason = "own/a failed: its znode cannot be removed: it lists a child of /zoolet-conformance-";
        assert!(
            ran.out.contains(reason) && ran.out.contains(&format!(" with the name {name:?}\n")),
            "{ran:?}"
        );
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.err.contains(" remains: it lists a child of "), "{ran:?}");
    }
}

#[test]
fn a_directory_that_never_empties_is_not_emptied_for_ever() {
    let ran = judge(|asked, _| match asked.op {
        Some(OpCode::GetChildren) if asked.path.ends_with("-a") => names(&["n"]),
        Some(OpCode::Delete) if !asked.path.ends_with("/n") => {
            Answer::Header(|header| ReplyHeader::error(header.xid, header.zxid, ErrorCode::NotEmpty))
        }
        Some(OpCode::Exists) => Answer::Instead(Reply::Stat(Stat::default())),
        _ => Answer::Honest,
    });
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains(" remains: it is still there after it was deleted\n"), "{ran:?}");
}

#[test]
fn children_without_end_are_not_followed() {
    let mut listed = 0;
    let ran = judge(move |asked, _| match asked.op {
        Some(OpCode::GetChildren) => {
            listed += 4_000;
            let all: Vec<_> = (0..listed).map(|at| format!("child-{at}")).collect();
            names(&all.iter().map(String::as_str).collect::<Vec<_>>())
        }
        _ => Answer::Honest,
    });
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("cannot be removed: it lists more than 10000 znodes below /zoolet-"), "{ran:?}");
}

#[test]
fn levels_without_end_are_not_followed() {
    let ran = judge(when(OpCode::GetChildren, |_| names(&["deeper"])));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("cannot be removed: it lists more than 50 levels below /zoolet-"), "{ran:?}");
}

#[test]
fn replies_to_other_requests_are_no_replies() {
    let ran = judge(|_, _| Answer::Header(|header| ReplyHeader { xid: Xid(header.xid.0 + 1), ..header }));
    assert!(ran.refused(2).ends_with("a reply with xid 2 where that to 1 is due"), "{ran:?}");
    let ran = judge(when(OpCode::Create, |asked| match asked.path.ends_with("/n") {
        true => Answer::Header(|header| ReplyHeader { xid: Xid(7), ..header }),
        false => Answer::Honest,
    }));
    assert!(ran.out.contains("own/a failed: a reply with xid 7 where that to 1 is due\n"), "{ran:?}");
}

#[test]
fn silence_in_the_middle_of_a_case_fails_it() {
    let ran = judge(when(OpCode::Create, |asked| match asked.path.ends_with("/n") {
        true => Answer::Silence,
        false => Answer::Honest,
    }));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("own/a failed: nothing has come within 0.3 s\n"), "{ran:?}");
}

#[test]
fn silence_in_the_cleanup_is_not_waited_for_twice() {
    let ran = judge(when(OpCode::Delete, |_| Answer::Silence));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains(" remains: nothing has come within 0.3 s\n"), "{ran:?}");
}

#[test]
fn a_connection_that_is_cut_in_the_cleanup_is_named() {
    let ran = judge(when(OpCode::GetChildren, |_| Answer::Cut));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains(" remains: the server has ended the connection\n"), "{ran:?}");
}

#[test]
fn answers_that_come_just_in_time_do_not_prolong_a_cleanup_for_ever() {
    let ran = judge(when(OpCode::GetChildren, |asked| {
        thread::sleep(Duration::from_millis(50));
        let depth = asked.path.split('/').count();
        names(&[&format!("{depth}-a"), &format!("{depth}-b")])
    }));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains(" is not deleted within 3.6 s\n"), "{ran:?}");
}

#[test]
fn events_without_end_are_no_answer() {
    let mut event = BytesMut::new();
    Reply::encode_event(Zxid(1), EventType::NodeDeleted, "/a", &mut event);
    let flood = event.repeat(1 << 20);
    let ran = judge(when(OpCode::GetChildren, move |_| Answer::After(flood.clone())));
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains(" remains: nothing has come within 0.3 s\n"), "{ran:?}");
}

#[test]
fn too_few_descriptors_are_not_the_fault_of_the_server() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let file = temp.path().join("many.case");
    let letters: Vec<_> = ('A'..='Z').map(|letter| format!("{letter} create ~/{letter}\n")).collect();
    fs::write(&file, format!("case own/many\nfact x\n{}", letters.concat())).unwrap();
    let arguments = ["conform", &server.addrs[0], "--cases", file.to_str().unwrap()];
    // In the middle of the case, and before it.
    for (count, at) in [(24, ", in the case own/many\n"), (9, "")] {
        let ran = shell(&format!("ulimit -n {count}; exec $0 \"$@\""), &arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.err.contains(&format!("Too many open files (os error 24){at}")), "{ran:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_under_the_report_is_named() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let arguments = ["conform", &server.addrs[0], "--cases", &cases(&temp)];
    let ran = shell("exec $0 \"$@\" >/dev/full", &arguments);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.starts_with("zoolet: cannot write to stdout: No space left on device"), "{ran:?}");
}
