//! Names, fields and their order, statuses, and the text itself.

use serde_json::json;
use zoolet_admin::{AdminError, AdminServer, AdminServerBuilder};
use zoolet_server::Server;
use zoolet_test_support::{create, ephemeral, get_data};

use crate::common::{Pair, ask_at};

/// Every command with its aliases, and the keys of its answer but for `command` and `error`, which come last.
const COMMANDS: &[(&str, &[&str], &[&str])] = &[
    (
        "configuration",
        &["conf", "config"],
        &[
            "client_port",
            "data_dir",
            "data_log_dir",
            "tick_time",
            "max_client_cnxns",
            "min_session_timeout",
            "max_session_timeout",
            "server_id",
            "client_port_listen_backlog",
        ],
    ),
    ("connection_stat_reset", &["crst"], &[]),
    ("connections", &["cons"], &["connections", "secure_connections"]),
    ("dirs", &[], &["datadir_size", "logdir_size"]),
    ("dump", &[], &["expiry_time_to_session_ids", "session_id_to_ephemeral_paths"]),
    ("get_trace_mask", &["gtmk"], &["tracemask"]),
    ("hash", &[], &["digests"]),
    ("initial_configuration", &["icfg"], &["initial_configuration"]),
    ("is_read_only", &["isro"], &["read_only"]),
    ("last_snapshot", &["lsnp"], &["zxid", "timestamp"]),
    ("observer_connection_stat_reset", &["orst"], &[]),
    ("observers", &["obsr"], &["synced_observers", "observers"]),
    ("ruok", &[], &[]),
    ("server_stats", &["srvr"], &["version", "read_only", "server_stats", "client_response", "node_count"]),
    ("set_trace_mask?traceMask=5", &["stmk?traceMask=5"], &["tracemask"]),
    ("stat_reset", &["srst"], &[]),
    (
        "stats",
        &["stat"],
        &[
            "version",
            "read_only",
            "server_stats",
            "client_response",
            "node_count",
            "connections",
            "secure_connections",
        ],
    ),
    ("voting_view", &[], &["current_config"]),
    ("watch_summary", &["wchs"], &["num_connections", "num_paths", "num_total_watches"]),
    ("watches", &["wchc"], &["session_id_to_watched_paths"]),
    ("watches_by_path", &["wchp"], &["path_to_session_ids"]),
    ("zabstate", &[], &["voting", "zabstate"]),
];

#[tokio::test]
async fn every_command_has_its_names_its_fields_in_order_and_then_command_and_error() {
    let pair = Pair::start(Server::builder()).await;
    for (name, aliases, fields) in COMMANDS {
        let keys: Vec<_> = fields.iter().chain(&["command", "error"]).copied().collect();
        for called in std::iter::once(name).chain(*aliases) {
            let answer = pair.get(&format!("/commands/{called}")).await;
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (200, Some("application/json")),
                "{called}"
            );
            assert_eq!(answer.keys(), keys, "{called}");
            let first = name.split('?').next();
            assert_eq!(answer.json()["command"].as_str(), first, "{called}");
            assert!(answer.json()["error"].is_null(), "{called}");
        }
    }
    for (called, first, known) in [
        ("monitor", "version", "znode_count"),
        ("mntr", "version", "packets_received"),
        ("environment", "zookeeper.version", "os.memory.free"),
        ("envi", "zookeeper.version", "user.dir"),
        ("env", "zookeeper.version", "host.name"),
        ("system_properties", "file.separator", "os.name"),
        ("sysp", "file.separator", "user.home"),
    ] {
        let answer = pair.get(&format!("/commands/{called}")).await;
        let keys = answer.keys();
        assert_eq!(keys[0], first, "{called}");
        assert_eq!(keys[keys.len() - 2..], ["command", "error"], "{called}");
        assert!(keys.iter().any(|key| key == known), "{called}: {keys:?}");
    }
}

#[tokio::test]
async fn the_list_has_all_names_sorted_as_links() {
    let pair = Pair::start(Server::builder()).await;
    for (method, path) in [("GET", "/commands"), ("GET", "/commands/"), ("POST", "/commands")] {
        let answer = pair.ask(method, path, "", b"").await;
        assert_eq!((answer.status, answer.header("content-type"), answer.body.len()), (200, None, 1518));
        assert!(answer.text().starts_with("<a href=\"/commands/configuration\">configuration</a>\n<br/>\n"));
        assert!(answer.text().ends_with("<a href=\"/commands/zabstate\">zabstate</a>\n<br/>\n"));
    }
}

#[tokio::test]
async fn names_match_exactly_and_unknown_ones_are_answered_as_typed() {
    let pair = Pair::start(Server::builder()).await;
    for name in ["nope", "RUOK", "ruok/", "ruok/x", "/ruok"] {
        for method in ["GET", "POST"] {
            let answer = pair.ask(method, &format!("/commands/{name}"), "", b"").await;
            let expected =
                format!("{{\n  \"command\" : \"{name}\",\n  \"error\" : \"Unknown command: {name}\"\n}}");
            assert_eq!((answer.status, answer.text()), (200, &*expected));
        }
    }
    assert_eq!(pair.get("/commands/r%75ok?x=1").await.json()["command"], "ruok");
    for path in ["/foo", "/commandsx"] {
        assert_eq!(pair.get(path).await.status, 404);
    }
    assert_eq!(pair.ask("POST", "/commands/ruok", "", b"").await.status, 500);
}

#[tokio::test]
async fn an_error_of_a_command_comes_first_and_its_name_last() {
    let pair = Pair::start(Server::builder()).await;
    for (path, error) in [
        ("leader", "server is not initialized"),
        ("stmk", "setTraceMask requires long traceMask argument"),
        ("stmk?traceMask=abc", "setTraceMask requires long traceMask argument, got abc"),
    ] {
        let answer = pair.get(&format!("/commands/{path}")).await;
        assert_eq!((answer.status, answer.keys()), (200, vec!["error".to_owned(), "command".to_owned()]));
        assert_eq!(answer.json()["error"], error);
    }
    assert_eq!(pair.get("/commands/stmk?traceMask=7&traceMask=8").await.json()["tracemask"], 7);
    assert_eq!(pair.get("/commands/gtmk").await.json()["tracemask"], 7);
}

#[tokio::test]
async fn what_clients_have_is_listed() {
    let pair = Pair::start(Server::builder()).await;
    let mut client = pair.client().await;
    client.ask(create("/a")).await;
    client.ask(ephemeral("/a/e")).await;
    let mut watched = get_data("/a");
    if let zoolet_proto::Request::GetData(record) = &mut watched {
        record.watch = true;
    }
    client.ask(watched).await;

    let connections = pair.get("/commands/cons").await.json();
    let connection = &connections["connections"][0];
    let keys: Vec<_> = connection.as_object().expect("a connection").keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "remote_socket_address",
            "interest_ops",
            "outstanding_requests",
            "packets_received",
            "packets_sent",
            "session_id",
            "last_operation",
            "established",
            "session_timeout",
            "last_cxid",
            "last_zxid",
            "last_response_time",
            "last_latency",
            "min_latency",
            "avg_latency",
            "max_latency"
        ]
    );
    assert_eq!(connection["packets_received"], 4);
    assert_eq!(connection["last_operation"], "GETD");
    let session = connection["session_id"].as_i64().expect("an id");
    assert_eq!(connections["secure_connections"], json!([]));
    let brief = pair.get("/commands/stats").await.json();
    assert_eq!(brief["connections"][0].as_object().map(serde_json::Map::len), Some(5));

    let dump = pair.get("/commands/dump").await.json();
    assert_eq!(dump["session_id_to_ephemeral_paths"], json!({ session.to_string(): ["/a/e"] }));
    let expiring = dump["expiry_time_to_session_ids"].as_object().expect("an object");
    assert_eq!(expiring.values().next(), Some(&json!([session])));

    assert_eq!(
        pair.get("/commands/wchc").await.json()["session_id_to_watched_paths"],
        json!({ session.to_string(): ["/a"] })
    );
    assert_eq!(pair.get("/commands/wchp").await.json()["path_to_session_ids"], json!({ "/a": [session] }));
    let summary = pair.get("/commands/wchs").await.json();
    let counts = ["num_connections", "num_paths", "num_total_watches"].map(|key| summary[key].as_i64());
    assert_eq!(counts, [Some(1); 3]);
    assert_eq!(pair.get("/commands/mntr").await.json()["ephemerals_count"], 1);
    assert_eq!(pair.get("/commands/srvr").await.json()["node_count"], 7);

    pair.get("/commands/crst").await;
    let connections = pair.get("/commands/cons").await.json();
    assert_eq!(connections["connections"][0]["packets_received"], 0);
    assert_eq!(connections["connections"][0]["last_operation"], "NA");
}

#[tokio::test]
async fn a_server_that_has_stopped_is_not_served_and_keeps_nothing_alive() {
    let Pair { server, admin } = Pair::start(Server::builder()).await;
    let addr = admin.addr();
    server.shutdown().await;
    let ask = async |name: &str| {
        let answer = ask_at(addr, "GET", &format!("/commands/{name}"), "", b"").await;
        (answer.status, answer.json())
    };
    let error = "This ZooKeeper instance is not currently serving requests";
    assert_eq!(ask("srvr").await, (200, json!({ "command": "srvr", "error": error })));
    assert_eq!(ask("mntr").await.0, 500);
    assert_eq!(ask("envi").await.1["error"], json!(null));
    admin.shutdown().await;
}

#[tokio::test]
async fn the_commands_have_a_path_that_is_not_the_page_s() {
    let server = Server::builder().start().await.expect("a server");
    for path in ["", "/", "ask", "/ask/", "/ask?a=b", "/api", "/api/ask"] {
        let admin = AdminServer::builder(&server).bind("127.0.0.1:0").command_url(path);
        let error = admin.start().await.expect_err(path);
        assert!(matches!(error, AdminError::Setting { setting: "command_url", .. }), "{path}: {error}");
    }
    for path in ["/ask", "/apis", "/ask/api"] {
        assert!(AdminServerBuilder::is_command_url(path), "{path}");
    }
}

#[tokio::test]
async fn secrets_of_the_configuration_are_not_shown() {
    let settings = [("tickTime", "2000"), ("ssl.keyStore.password", "hunter2")];
    let pair = Pair::start_with(Server::builder(), |admin| admin.initial_configuration(settings)).await;
    assert_eq!(
        pair.get("/commands/icfg").await.json()["initial_configuration"],
        "tickTime=2000\nssl.keyStore.password=(not shown)\n"
    );
    for name in ["conf", "sysp", "envi", "icfg"] {
        assert!(!pair.get(&format!("/commands/{name}")).await.text().contains("hunter2"), "{name}");
    }
}
