//! Which servers a command reaches, as whom, and below which znode.

use std::fs;
use std::process::Stdio;

use crate::common::Running;
use crate::shell::{ended, run_with, shell_command};

fn run(address: &str, arguments: &[&str]) -> (i32, String, String) {
    ended(shell_command(address, arguments).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn what_the_file_has_for_one_cluster_is_not_used_at_another() {
    let server = Running::start(&["--bind", "127.0.0.1:0"]);
    let address = server.addrs[0].as_str();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::create_dir(path("zoolet")).unwrap();
    let mut clusters = String::new();
    for name in ["prod", "test"] {
        fs::write(path(name), format!("digest:{name}:secret\n")).unwrap();
        clusters += &format!("{name} = {address}\n{name}.auth-file = {}\n", path(name));
        let arguments =
            ["create", &format!("/{name}"), "", "--acl", "auth::cdrwa", "--auth-file", &path(name)];
        assert_eq!(run(address, &arguments).0, 0);
    }
    fs::write(path("zoolet/clusters"), clusters).unwrap();
    let named = |arguments: &[&str]| {
        ended(shell_command("@prod", arguments).env("XDG_CONFIG_HOME", folder.path()).output().unwrap())
    };
    for to in ["@test", "@test/"] {
        let (code, _, err) = named(&["diff", "--no-acl", "/prod", "/test", "--to-server", to]);
        assert_eq!(code, 0, "each is read as who may read it: {err}");
    }
    let (code, _, err) = named(&["diff", "--no-acl", "/prod", "/prod", "--to-server", address]);
    assert_eq!(code, 3, "the credentials of a name are not for an address: {err}");
    let flag = path("test");
    let given = ["diff", "--no-acl", "/test", "/test", "--to-server", address, "--auth-file", &flag];
    assert_eq!(named(&given).0, 0, "a flag is for both");
    let lines = "diff --no-acl /prod /test --to-server @test\n";
    fs::write(path("lines"), lines).unwrap();
    let mut shell = shell_command("@prod", &["sh"]);
    let shell = shell.env("XDG_CONFIG_HOME", folder.path()).stdin(fs::File::open(path("lines")).unwrap());
    let (code, _, err) = ended(shell.output().unwrap());
    assert_eq!(code, 0, "{err}");
}

#[test]
fn an_address_with_a_scheme_has_the_chroot_that_is_after_its_hosts() {
    let server = Running::start(&["--bind", "127.0.0.1:0"]);
    let address = server.addrs[0].as_str();
    let scheme = format!("zk://{address}");
    assert_eq!(run(&scheme, &["create", "/app", ""]).0, 0);
    for path in ["/zookeeper/quota", "/zookeeper"] {
        let (code, _, err) = run(&scheme, &["rm", "-r", "-y", path]);
        assert!(code == 2 && err.contains("belongs to the server"), "{err}");
    }
    assert_eq!(run(&format!("{scheme}/zookeeper"), &["rm", "-r", "-y", "/quota"]).0, 2);
    assert_eq!(run(&scheme, &["set-quota", "/app", "--count", "5"]).0, 0);
    assert_eq!(run(&scheme, &["quota", "/app"]).0, 0);
    assert_eq!(run(&format!("{scheme}/app"), &["quota", "/x"]).0, 2);
    for below in ["", "/app"] {
        let (code, _, err) = run(&format!("{scheme}{below}"), &["config"]);
        assert_eq!(code, 0, "{err}");
    }
    for command in ["health", "wait"] {
        let (code, out, err) = run(&format!("{scheme}/app"), &[command]);
        assert!(code == 0 && out.starts_with(&format!("{address} serves")), "{err}");
        let (code, out, err) = run("", &[command, &format!("bob@{address}")]);
        assert!(code == 0 && out.starts_with(&format!("{address} serves")), "{err}");
        assert_eq!(run("", &[command, "--timeout", "100ms"]).0, 2, "as without a server in any command");
    }
    assert_eq!(run("", &["ls", "/"]).0, 2);
    for command in ["health", "words"] {
        let (code, _, err) = run(&format!("{address}/a://b"), &[command]);
        assert_eq!(code, 0, "what is in a chroot is no scheme: {err}");
    }
}

#[test]
fn a_mirror_never_replaces_what_the_target_s_servers_keep_for_themselves() {
    let servers = [(); 2].map(|()| Running::start(&["--bind", "127.0.0.1:0"]));
    let [one, other] = [servers[0].addrs[0].as_str(), servers[1].addrs[0].as_str()];
    assert_eq!(run(one, &["create", "-p", "/app/a", ""]).0, 0);
    assert_eq!(run(other, &["create", "/t", ""]).0, 0);
    assert_eq!(run(other, &["set-quota", "/t", "--count", "5"]).0, 0);
    let below = format!("{one}/app");
    for (to, server) in [("/zookeeper/quota", other.to_owned()), ("/quota", format!("{other}/zookeeper"))] {
        let (code, _, err) = run(&below, &["mirror", "-y", "/a", to, "--to-server", &server]);
        assert!(code == 2 && err.contains("belongs to the server"), "{err}");
    }
    assert_eq!(run(other, &["quota", "/t"]).0, 0);
}

#[test]
fn two_trees_of_the_same_servers_are_two_places_whatever_they_are_called() {
    let server = Running::start(&["--bind", "127.0.0.1:0"]);
    let address = server.addrs[0].as_str();
    assert_eq!(run(address, &["create", "-p", "/app/x/y", "data"]).0, 0);
    for (from, to, server) in [
        ("/app/x", "/app", address.to_owned()),
        ("/app/x", "/app", format!("zk://{address},127.0.0.1:1")),
        ("/app/x", "/x", format!("{address}/app")),
        ("/app", "/", format!("{address}/app/x")),
    ] {
        let (code, _, err) = run(address, &["cp", "-r", from, to, "--to-server", &server]);
        assert!(code == 2 && err.contains("not two places"), "{server}: {err}");
    }
    assert_eq!(
        run(
            address,
            &["cp", "-r", "/x", "/z", "--server", &format!("{address}/app"), "--to-server", address]
        )
        .0,
        0
    );
}

#[test]
fn a_write_with_read_only_is_refused_without_a_server() {
    let (code, _, err) = run("127.0.0.1:1", &["set", "/a", "x", "--read-only", "--timeout", "300ms"]);
    assert!(code == 2 && err.contains("set: this is a shell that only reads"), "{err}");
}

#[test]
fn input_that_is_used_up_or_is_not_text_writes_nothing() {
    let server = Running::start(&["--bind", "127.0.0.1:0"]);
    let address = server.addrs[0].as_str();
    assert_eq!(run(address, &["create", "/a", "kept"]).0, 0);
    for (input, why) in [
        (&b"set /a -\n"[..], "standard input has been read"),
        (b"set /a \xff\n", "not text"),
        (b"create -p /x/y\n", "-p"),
    ] {
        let (code, _, err) = run_with(address, &["multi"], input);
        assert!(code == 2 && err.contains(why), "{err}");
    }
    assert_eq!(run(address, &["get", "/a"]).1, "kept");
}
