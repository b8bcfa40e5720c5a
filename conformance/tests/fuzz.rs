//! Two servers of ours, compared by random requests.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zoolet_conformance::{ANSWER_LIMIT, CaseOutcome, Catalogue, Fuzz, Runner, Setting};
use zoolet_server::{Server, ServerBuilder};

async fn start(builder: ServerBuilder) -> Server {
    builder.bind("127.0.0.1:0").start().await.expect("a server")
}

#[tokio::test]
async fn equal_servers_do_not_differ() {
    let (one, other) = (start(Server::builder()).await, start(Server::builder()).await);
    let fuzz = Fuzz::new(&one.connect_string(), &other.connect_string(), 1, ANSWER_LIMIT)
        .await
        .expect("two servers");
    for seed in 0..7 {
        let difference = fuzz.run(seed, 300).await.expect("servers that answer");
        assert_eq!(difference, None, "seed {seed}");
    }
}

/// Of `super:secret`.
const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

fn with_switches() -> ServerBuilder {
    Server::builder().extended_types(true).enforce_quota(true).reconfig_enabled(true)
}

fn with_everything() -> ServerBuilder {
    with_switches().super_digest(SUPER_DIGEST)
}

const SWITCHES: [Setting; 3] = [Setting::ExtendedTypes, Setting::EnforceQuota, Setting::Reconfig];

#[tokio::test]
async fn equal_servers_with_all_settings_do_not_differ() {
    let (one, other) = (start(with_everything()).await, start(with_everything()).await);
    let fuzz = Fuzz::new(&one.connect_string(), &other.connect_string(), 1, ANSWER_LIMIT)
        .await
        .expect("two servers");
    let mut fuzz = fuzz.with(&SWITCHES);
    fuzz.set_super_credentials("super:secret").await.expect("those of the super user");
    for seed in 0..7 {
        let difference = fuzz.run(seed, 300).await.expect("servers that answer");
        assert_eq!(difference, None, "seed {seed}");
    }
}

#[tokio::test]
async fn a_setting_that_only_one_server_has_becomes_a_short_case() {
    let one = start(with_everything()).await;
    let without_quotas = with_everything().enforce_quota(false);
    let without_reconfig = with_everything().reconfig_enabled(false);
    for (run, (other, seed, shows)) in
        [(without_quotas, 6, "-> QuotaExceeded"), (without_reconfig, 3, "-> Unimplemented")]
            .into_iter()
            .enumerate()
    {
        let (other, run) = (start(other).await, 2 * run as u64);
        let [one, other] = [one.connect_string(), other.connect_string()];
        let fuzz = Fuzz::new(&one, &other, run, ANSWER_LIMIT).await.expect("two servers");
        let mut fuzz = fuzz.with(&SWITCHES);
        fuzz.set_super_credentials("super:secret").await.expect("those of the super user");
        let difference = fuzz.run(seed, 1_000).await.expect("servers that answer").expect("a difference");
        fuzz.finish().await;
        assert!(difference.repeats && difference.case.contains(shows), "{shows}: {difference:#?}");
        assert!(difference.case.lines().count() <= 14, "{}", difference.case);
        let catalogue = Catalogue::parse("fuzz", &difference.case).expect("a case");
        let outcome = async |server: &str| {
            let mut runner = Runner::new(server, run + 1, ANSWER_LIMIT).await.expect("a server");
            runner.set_super_credentials("super:secret").await.expect("those of the super user");
            let outcome = runner.run(&catalogue.cases()[0]).await.expect("a server that answers");
            runner.finish().await.expect("nothing is left");
            outcome
        };
        assert_eq!(outcome(&one).await, CaseOutcome::Passed, "{}", difference.case);
        assert!(matches!(outcome(&other).await, CaseOutcome::Failed(_)), "{}", difference.case);
    }
}

#[tokio::test]
async fn a_difference_becomes_a_short_case_that_only_the_reference_passes() {
    let (one, other) = (start(Server::builder()).await, start(Server::builder().extended_types(true)).await);
    let [one, other] = [one.connect_string(), other.connect_string()];
    let fuzz = Fuzz::new(&one, &other, 1, ANSWER_LIMIT).await.expect("two servers");
    let difference = fuzz.run(1, 500).await.expect("servers that answer").expect("a difference");
    assert!(difference.repeats);
    assert_eq!(difference.case.matches("createTTL").count(), 1, "{}", difference.case);
    assert!(difference.case.lines().count() <= 4, "{}", difference.case);
    let catalogue = Catalogue::parse("fuzz", &difference.case).expect("a case");
    let outcome = async |server: &str| {
        let runner = Runner::new(server, 2, ANSWER_LIMIT).await.expect("a server");
        runner.run(&catalogue.cases()[0]).await.expect("a server that answers")
    };
    assert_eq!(outcome(&one).await, CaseOutcome::Passed);
    assert!(matches!(outcome(&other).await, CaseOutcome::Failed(_)));
}

#[tokio::test]
async fn no_session_is_left_that_would_expire_in_the_middle_of_a_run() {
    let server = start(with_everything().all_four_letter_words()).await;
    let runner = Runner::new(&server.connect_string(), 1, ANSWER_LIMIT).await.expect("a server that answers");
    runner.find_settings(&Setting::ALL).await.expect("a server that answers");
    let mut connection = TcpStream::connect(server.addrs()[0]).await.expect("a connection");
    connection.write_all(b"dump").await.expect("a word");
    let mut dump = String::new();
    connection.read_to_string(&mut dump).await.expect("an answer");
    assert!(dump.contains("Session Sets (0)/(0):"), "{dump}");
}
