//! How settings of a file and of flags come together.

use super::*;

/// A file with these keys, and flags over it. Flags are those of the table.
pub(super) fn set(keys: &[(&str, &str)], flags: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (key, text) in keys {
        let row = SettingRow::of_key(key).expect("a key");
        (row.set)(&mut settings, Written::Key(text)).unwrap();
    }
    settings.join_parts();
    for (flag, text) in flags {
        let row = table::settings().find(|row| row.flag == Some(flag)).expect("a flag");
        (row.set)(&mut settings, Written::Flag(text)).unwrap();
    }
    settings
}

#[test]
fn flags_take_precedence_and_addresses_replace_that_of_the_file() {
    let file = [("maxCnxns", "2"), ("skipACL", "yes"), ("clientPort", "1"), ("readonlymode.enabled", "true")];
    let flags = [("max-cnxns", "1"), ("bind", "a:1"), ("bind", "b:1"), ("four-letter-words", "ruok")];
    let expected = Server::builder()
        .max_connections_per_ip(DEFAULT_MAX_CLIENT_CNXNS)
        .max_connections(1)
        .skip_acl(true)
        .four_letter_words([FourLetterWord::Ruok])
        .bind("a:1")
        .bind("b:1");
    assert_eq!(format!("{:?}", set(&file, &flags).builder()), format!("{expected:?}"));
}

#[test]
fn defaults_in_the_help_are_those_of_the_server() {
    let in_dir = || Settings { data_dir: Some("/data".into()), ..Settings::default() };
    let default = format!("{:?}", in_dir().builder());
    let mut in_words = Vec::new();
    for row in table::settings() {
        let mut settings = in_dir();
        match (row.set)(&mut settings, Written::Flag(row.default)) {
            Ok(()) if row.takes == DIR => {}
            // Any text is a name.
            Ok(()) if ["NAME", "SUBJECT"].contains(&row.takes) && row.default == "none" => {
                in_words.push(row.default)
            }
            Ok(()) => assert_eq!(format!("{:?}", settings.builder()), default, "{}", row.help),
            Err(_) => in_words.push(row.default),
        }
    }
    in_words.sort_unstable();
    in_words.dedup();
    assert_eq!(
        in_words,
        [
            "2 ticks",
            "20 ticks",
            "3, or as autopurge of the zoo.cfg",
            "300ms for snapshots, 5m for restores",
            "AES-GCM and ChaCha20-Poly1305 with ECDHE",
            "by the content",
            "no limit",
            "none",
            "off",
            "that of ssl.protocol",
            "those of digest and ip",
            "true, if there is admin.serverPort"
        ]
    );
}

#[test]
fn a_protection_that_nothing_uses_is_a_warning_in_a_file_and_a_mistake_as_a_flag() {
    for (keys, why) in [
        (&[("clientPort", "1"), ("ssl.keyStore.location", "/key.pem")][..], "no port speaks TLS"),
        (&[("ssl.trustStore.location", "/ca.pem")], "no port speaks TLS"),
        (&[("superUser", "admin")], "there are no users"),
    ] {
        let warnings = set(keys, &[]).warnings();
        assert!(matches!(&warnings[..], [warning] if warning.contains(why)), "{keys:?}: {warnings:?}");
    }
    let tls = [
        ("secureClientPort", "1"),
        ("ssl.keyStore.location", "/key.pem"),
        ("ssl.trustStore.location", "/ca.pem"),
        ("ssl.clientAuth", "none"),
    ];
    let https = [
        ("admin.serverPort", "1"),
        ("admin.forceHttps", "true"),
        ("ssl.quorum.keyStore.location", "/key.pem"),
        ("admin.needClientAuth", "true"),
    ];
    for (keys, flags, why) in [
        (&[][..], &[("tls-cert", "/file.pem")][..], "used by no port"),
        (&[], &[("tls-key", "/file.pem")], "used by no port"),
        (&[], &[("tls-client-ca", "/file.pem")], "used by no port"),
        (&[], &[("tls-crl", "/file.pem")], "used by no port"),
        (&tls[..2], &[("tls-crl", "/file.pem")], "no client is asked for a certificate"),
        (&tls, &[("tls-crl", "/file.pem")], "no client is asked for a certificate"),
        (&[], &[("admin-writable", "true")], "used by no admin server"),
        (&[], &[("admin-host", "zk.example")], "used by no admin server and no metrics"),
        (
            &[],
            &[("admin-writable", "true"), ("admin-host", "zk.example"), ("metrics", "127.0.0.1:1")],
            "--admin-writable is used by no admin server",
        ),
        (&https, &[], "set ssl.quorum.trustStore.location"),
    ] {
        let mistakes = set(keys, flags).check();
        let is_said = matches!(&mistakes[..], [mistake] if mistake.to_string().contains(why));
        assert!(is_said, "{keys:?}, {flags:?}: {mistakes:?}");
    }
    // Nothing would use it.
    let https_of_nobody = [&https[1..], &[("admin.enableServer", "false")]].concat();
    assert_eq!(set(&https_of_nobody, &[]).check(), []);
}

#[test]
fn contradicting_timeouts_are_reported_in_milliseconds() {
    let message = set(&[], &[("max-session-timeout", "5s")]).check_timeouts().unwrap_err().to_string();
    assert!(message.contains("6000 ms") && message.contains("5000 ms"), "{message}");
}

#[test]
fn without_a_data_directory_the_state_is_in_memory() {
    assert!(Settings::default().storage().is_none());
    let in_dir = set(&[], &[("data-dir", "/data")]);
    assert_eq!(in_dir.storage().unwrap().data_dir, PathBuf::from("/data"));
    assert!(Settings { in_memory: true, ..in_dir }.storage().is_none());
}

#[test]
fn a_limit_of_zero_is_no_limit() {
    let flags = [("data-dir", "/data"), ("snap-size-limit", "0"), ("log-size-limit", "0")];
    let options = set(&[], &flags).storage().unwrap();
    assert_eq!((options.snapshot_after_bytes, options.log_size_limit), (None, None));
}

#[test]
fn the_directory_of_the_log_belongs_to_its_data_directory() {
    let file = [("dataDir", "/data"), ("dataLogDir", "/log"), ("snapCount", "7")];
    let other = set(&file, &[("data-dir", "/other")]).storage().unwrap();
    assert_eq!((other.log_dir, other.snapshot_after_txns), (None, 7));
    let both = set(&file, &[]).storage().unwrap();
    assert_eq!((both.data_dir, both.log_dir), ("/data".into(), Some("/log".into())));
    let same = set(&[], &[("data-dir", "/data"), ("log-dir", "/data")]);
    assert_eq!(same.storage().unwrap().log_dir, None);
}
