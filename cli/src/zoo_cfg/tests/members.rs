//! The servers of a file, and of its dynamic file.

use super::*;

/// A zoo.cfg with these lines, and the name of its dynamic file with those.
fn with_dynamic(text: &str, dynamic: &str) -> (NamedTempFile, String) {
    let file = dynamic_file(dynamic);
    let text = format!("{text}\ndynamicConfigFile={}", file.path().display());
    (file, text)
}

#[test]
fn without_a_client_port_the_line_of_the_server_has_the_address() {
    let binds = |text| shown(read(text).settings.builder());
    let at = |address: &str| shown(default().bind(address));
    assert_eq!(binds("server.1=localhost:2888:3888;2181"), at("[::]:2181"));
    assert_eq!(binds("server.1=a:2888:3888:participant; 127.0.0.1:2182"), at("127.0.0.1:2182"));
    assert_eq!(binds("server.7=a:2888:3888|b:2888:3888;[::1]:2183"), at("[::1]:2183"));
    assert_eq!(binds("server.1=a:1:2;2181\nserver.1=a:1:2;2182"), at("[::]:2182"));
    assert_eq!(binds("server.1=a:1:2;2181\nclientPort=2199"), at("[::]:2199"));
    assert_eq!(binds("server.1=a:2888:3888"), at("127.0.0.1:2181"));
    assert_eq!(
        read("server.1=a:1:2;2181").warnings,
        ["zoo.cfg: ignored unsupported keys: server.1 (no ensemble; only its client address is used)"]
    );
    assert_eq!(
        error("server.1=a:2888:3888;x"),
        "zoo.cfg:1: server.1 = a:2888:3888;x: after the semicolon: must be a port from 0 to 65535"
    );
    assert_eq!(
        error("server.1=a:2888:3888;::1:2181"),
        "zoo.cfg:1: server.1 = a:2888:3888;::1:2181: after the semicolon: an IPv6 address needs brackets"
    );
}

#[test]
fn several_servers_are_rejected_as_each_would_run_alone() {
    for port in ["", "clientPort=2181\n"] {
        let text = format!("{port}server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2");
        assert!(
            error(&text).ends_with(
                "server.2 = b:1:2: ensembles are not supported, and members that each run alone would \
                 each grant the same lock; see docs/graduate.md for the way back from an ensemble, then keep the line of one server"
            ),
            "{}",
            error(&text)
        );
    }
}

#[test]
fn the_servers_of_a_dynamic_file_count_as_those_of_the_file() {
    let three = "server.1=a:1:2:participant;2181\nserver.2=b:1:2:participant;2181\nserver.3=c:1:2";
    for text in ["clientPort=2181", ""] {
        let (file, text) = with_dynamic(text, three);
        assert_eq!(
            error(&text),
            format!(
                "{}:2: server.2 = b:1:2:participant;2181: ensembles are not supported, and members that each run alone would \
                 each grant the same lock; see docs/graduate.md for the way back from an ensemble, then keep the line of one server",
                file.path().display()
            )
        );
    }
}

#[test]
fn one_server_in_a_dynamic_file_runs_standalone_at_its_address() {
    let one = "# by ZooKeeper\ngroup.1=1\nweight.1=1\nserver.1=a:1:2:participant;127.0.0.1:2182\n";
    let (file, text) = with_dynamic("", one);
    let config = read(&text);
    assert_eq!(shown(config.settings.builder()), shown(default().bind("127.0.0.1:2182")));
    // Of the file with the line, not of the zoo.cfg.
    assert_eq!(
        config.warnings,
        [format!(
            "{}: ignored unsupported keys: server.1 (no ensemble; only its client address is used)",
            file.path().display()
        )]
    );
    let (_file, text) = with_dynamic("clientPort=2199", one);
    assert_eq!(shown(read(&text).settings.builder()), shown(default().bind("[::]:2199")));
    let (_file, text) = with_dynamic("clientPort=2199", "");
    assert_eq!(built(&text), shown(default().bind("[::]:2199")));
}

#[test]
fn a_dynamic_file_that_zookeeper_would_refuse_is_refused() {
    let missing = error("tickTime=2000\ndynamicConfigFile=no/such.dynamic");
    let absolute = std::env::current_dir().unwrap().join("no/such.dynamic");
    let expected =
        format!("zoo.cfg:2: dynamicConfigFile = no/such.dynamic: cannot read {}: ", absolute.display());
    assert!(missing.starts_with(&expected), "{missing}");
    assert_eq!(error("dynamicConfigFile="), "zoo.cfg:1: dynamicConfigFile = : must be a file");
    let (file, text) = with_dynamic("", "version=100000000\nserver.1=a:1:2");
    let begin = format!(
        "{}:1: version = 100000000: a dynamic configuration file only has lines",
        file.path().display()
    );
    assert!(error(&text).starts_with(&begin), "{}", error(&text));
    let (_file, text) = with_dynamic("server.1=a:1:2", "server.2=b:1:2");
    let errors = errors(&text);
    assert!(errors[0].starts_with("zoo.cfg:1: server.1 = a:1:2: must be in the file"), "{errors:?}");
    assert!(errors[1].contains("server.2 = b:1:2: ensembles are not supported"), "{errors:?}");
    let (_file, text) = with_dynamic("", "server.1=\\u12");
    assert!(error(&text).contains(":1: \\u must be followed by four"), "{}", error(&text));
}
