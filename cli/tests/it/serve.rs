//! `zoolet serve` as its users see it: its output and its exit codes.

#![cfg(unix)]

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;

use crate::common::{Running, config, error_of, errors_of};

#[test]
fn one_line_on_stdout_announces_the_server_and_its_address() {
    let server = Running::start(&["--bind", "127.0.0.1:0"]);
    assert_eq!(server.word("srvr").lines().next().map(|line| &line[..24]), Some("Zookeeper version: 3.9.5"));
    let (code, rest, log) = server.stop("TERM");
    assert_eq!((code, rest.as_str(), log.as_str()), (Some(0), "", ""));
}

#[test]
fn an_interrupt_stops_it_cleanly_even_with_a_client_connected() {
    let server = Running::start(&["--bind", "127.0.0.1:0"]);
    let mut client = TcpStream::connect(server.addrs[0].as_str()).unwrap();
    let reading = std::thread::spawn(move || client.read_to_end(&mut Vec::new()));
    // Connections are accepted in their order: once a later one is answered, the server knows of this one.
    server.word("srvr");
    assert_eq!(server.stop("INT").0, Some(0));
    assert!(matches!(reading.join(), Ok(Ok(0))), "the client sees its connection end");
}

#[test]
fn it_listens_on_every_given_address() {
    let server = Running::start(&["--bind", "127.0.0.1:0", "--bind", "localhost:0"]);
    assert_eq!(server.addrs.len(), 2);
    for addr in &server.addrs {
        TcpStream::connect(addr.as_str()).unwrap();
    }
}

#[test]
fn settings_come_from_the_file_and_flags_take_precedence() {
    let file = config("clientPort=1\ntickTime=500\nmaxClientCnxns=7\n4lw.commands.whitelist=ruok, conf\n");
    let server = Running::start(&[
        "--config",
        file.path().to_str().unwrap(),
        "--bind",
        "127.0.0.1:0",
        "--tick-time",
        "1s",
        "--max-session-timeout",
        "15s",
    ]);
    let conf = server.word("conf");
    for line in ["tickTime=1000", "maxClientCnxns=7", "minSessionTimeout=2000", "maxSessionTimeout=15000"] {
        assert!(conf.lines().any(|found| found == line), "{line} in {conf}");
    }
    assert_eq!(server.word("ruok"), "imok");
    assert_eq!(server.word("stat"), "stat is not executed because it is not in the whitelist.\n");
}

#[test]
fn settings_default_to_those_of_apache() {
    let server = Running::start(&["--bind", "127.0.0.1:0", "--four-letter-words", "*"]);
    let conf = server.word("conf");
    for line in ["tickTime=3000", "maxClientCnxns=60", "minSessionTimeout=6000", "maxSessionTimeout=60000"] {
        assert!(conf.lines().any(|found| found == line), "{line} in {conf}");
    }
}

#[test]
fn unsupported_keys_are_listed_in_one_warning() {
    let file = config("initLimit=10\nssl.quorum.context.supplier.class=hush\n");
    let name = file.path().to_str().unwrap();
    let server = Running::start(&["--config", name, "--bind", "127.0.0.1:0"]);
    let (code, _, log) = server.stop("TERM");
    assert_eq!(code, Some(0));
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains("WARN"), "{log}");
    let expected = "initLimit, ssl.quorum.context.supplier.class";
    assert!(log.contains(expected) && log.contains(name), "{log}");
    assert!(!log.contains("hush") && !log.contains('\x1b'), "{log}");
}

#[test]
fn keys_that_ask_for_an_unsupported_protection_are_rejected() {
    for line in ["ssl.ocsp=true", "sslQuorum=true", "quorum.auth.enableSasl=true"] {
        let file = config(line);
        let message = error_of(&["--config", file.path().to_str().unwrap()]);
        assert!(message.contains("remove the key to run without it"), "{message}");
    }
    let file = config("sessionRequireClientSASLAuth=false\n");
    Running::start(&["--config", file.path().to_str().unwrap(), "--bind", "127.0.0.1:0"]).stop("TERM");
}

#[test]
fn every_mistake_of_a_file_has_a_line() {
    let file = config("sslQuorum=true\nsnapCount=5\nmaxSessionTimeout=1000\nssl.ocsp=true\n");
    let name = file.path().to_str().unwrap();
    let lines = errors_of(&["--config", name]);
    let begins = [":1: sslQuorum = true: TLS between servers is not", ":4: ssl.ocsp = true: "];
    for begin in begins.map(|begin| format!("zoolet: {name}{begin}")) {
        assert!(lines.iter().any(|line| line.starts_with(&begin)), "{lines:?}");
    }
    assert!(lines.iter().any(|line| line.contains(":2: snapCount requires a data directory")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("1000 ms (maxSessionTimeout")), "{lines:?}");
    assert_eq!(lines.len(), 4, "{lines:?}");
}

#[test]
fn a_super_digest_can_come_from_a_file_of_its_own() {
    let digest = config("super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n");
    Running::start(&["--bind", "127.0.0.1:0", "--super-digest-file", digest.path().to_str().unwrap()]);
    let wrong = config("super:secret\n");
    let message = error_of(&["--super-digest-file", wrong.path().to_str().unwrap()]);
    assert!(
        message.contains("must be user:base64(sha1(user:password))") && !message.contains("secret"),
        "{message}"
    );
}

#[test]
fn a_port_in_use_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let message = error_of(&["--bind", &addr]);
    assert!(message.starts_with(&format!("zoolet: cannot listen on {addr}: ")), "{message}");
    assert!(message.contains("choose another address"), "{message}");
    // Of a network for documentation.
    let message = error_of(&["--bind", "192.0.2.1:0"]);
    assert!(message.ends_with("; this machine does not have that address"), "{message}");
}

#[test]
fn an_invalid_value_in_the_file_is_reported_with_its_line() {
    let file = config("# the tick\ntickTime=fast\n");
    let name = file.path().to_str().unwrap();
    assert_eq!(
        error_of(&["--config", name]),
        format!("zoolet: {name}:2: tickTime = fast: must be a number of milliseconds from 1 to 2147483647")
    );
    let file = config("maxSessionTimeout=1000\n");
    let message = error_of(&["--config", file.path().to_str().unwrap()]);
    assert!(
        message.contains("minSessionTimeout") && message.contains("1000 ms (maxSessionTimeout"),
        "{message}"
    );
}

#[test]
fn a_missing_file_is_reported() {
    let message = error_of(&["--config", "no/such/zoo.cfg"]);
    assert!(message.starts_with("zoolet: cannot read the configuration no/such/zoo.cfg: "), "{message}");
}

#[test]
fn invalid_arguments_are_reported_in_one_line() {
    for (arguments, expected) in [
        (&["--bnd", "x"][..], "unexpected argument '--bnd' found; tip: a similar argument exists: '--bind'"),
        (&["--tick-time", "soon"], "'soon' for '--tick-time <TIME>': must be whole milliseconds with a unit"),
        (&["--tick-time", "0"], "must be at least 1ms"),
        (&["--bind", "2181"], "must be an address and a port, such as 127.0.0.1:2181"),
        (&["--max-frame", "10"], "must be a number of bytes from 64"),
        (&["--max-frame", "-1"], "'-1' for '--max-frame <BYTES>': must be a number of bytes from 64"),
        (&["--max-cnxns", "-1"], "'-1' for '--max-cnxns <COUNT>'"),
        (&["--no-such-flag"], "unexpected argument '--no-such-flag' found; see `zoolet serve --help`"),
        (&["--four-letter-words", "ruok,stats"], "unknown four-letter word stats"),
        (&["--skip-acl=yes"], "'yes' for '--skip-acl[=<BOOL>]'"),
        (&["--log", "debgu"], "--log debgu: must be off, error, warn, info, debug or trace"),
        (&["--super-digest", "super:hush"], "the super digest of --super-digest must be user:"),
        (&["again"], "unexpected argument 'again' found"),
    ] {
        let message = error_of(arguments);
        assert!(message.contains(expected), "{message}");
        assert!(!message.contains("hush"), "{message}");
    }
}

#[test]
fn a_service_manager_hears_when_the_server_is_ready_that_it_lives_and_that_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "2000")];
    let server = Running::start_with(&["--bind", "127.0.0.1:0"], &environment);
    let next = || {
        let mut state = [0; 256];
        let len = manager.recv(&mut state).unwrap();
        String::from_utf8(state[..len].to_vec()).unwrap()
    };
    assert_eq!(next(), format!("READY=1\nSTATUS=answers on {}", server.addrs[0]));
    assert_eq!([next(), next()], ["WATCHDOG=1", "WATCHDOG=1"]);
    server.signal("HUP");
    let states: Vec<_> = std::iter::repeat_with(next).filter(|state| state != "WATCHDOG=1").take(2).collect();
    assert_eq!(states, ["RELOADING=1".to_owned(), format!("READY=1\nSTATUS=answers on {}", server.addrs[0])]);
    assert_eq!(server.stop("TERM").0, Some(0));
    let rest = std::iter::repeat_with(next).find(|state| state != "WATCHDOG=1");
    assert_eq!(rest.as_deref(), Some("STOPPING=1\nSTATUS=stopping"));
}

#[test]
fn a_service_manager_that_is_not_there_is_a_warning() {
    let server = Running::start_with(&["--bind", "127.0.0.1:0"], &[("NOTIFY_SOCKET", "/no/such/socket")]);
    server.word("srvr");
    let log = server.stop("TERM").2;
    assert!(log.contains("WARN") && log.contains("cannot reach the service manager"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn a_hangup_does_not_end_the_server_and_says_what_is_not_reloaded() {
    let server = Running::start(&["--bind", "127.0.0.1:0"]);
    server.signal("HUP");
    server.word("srvr");
    let (code, _, log) = server.stop("TERM");
    assert_eq!(code, Some(0));
    assert!(log.contains("SIGHUP received: there is nothing to reload"), "{log}");
    assert_eq!(log.lines().count(), 1, "{log}");
}
