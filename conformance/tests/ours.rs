//! The built-in catalogue on our own server.

use zoolet_conformance::{ANSWER_LIMIT, Case, CaseOutcome, Catalogue, Matrix, Profile, Runner, Setting};
use zoolet_server::{Server, ServerBuilder};

/// Of `super:secret`.
const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

#[tokio::test]
async fn our_server_passes_but_for_what_is_decided_otherwise() {
    judge(Server::builder(), &[]).await;
}

#[tokio::test]
async fn with_all_settings_it_does_too() {
    let server = Server::builder().extended_types(true).enforce_quota(true).reconfig_enabled(true);
    judge(server.super_digest(SUPER_DIGEST), &Setting::ALL).await;
}

#[tokio::test]
async fn our_durable_server_does_too() {
    let dir = tempfile::tempdir().expect("a directory");
    judge(Server::builder().data_dir(dir.path()), &[]).await;
}

async fn judge(server: ServerBuilder, settings: &[Setting]) {
    let server = server.bind("127.0.0.1:0").start().await.expect("a server");
    let mut runner =
        Runner::new(&server.connect_string(), 1, ANSWER_LIMIT).await.expect("a server that answers");
    if settings.contains(&Setting::Super) {
        runner.set_super_credentials("super:secret").await.expect("those of the super user");
    }
    let found = runner.find_settings(&Setting::ALL).await.expect("a server that answers");
    let switches: Vec<_> = settings.iter().copied().filter(|setting| *setting != Setting::Super).collect();
    assert_eq!(found, switches);
    let mut wrong = Vec::new();
    let catalogue = Catalogue::builtin();
    let is_chosen = |case: &&Case| case.is_for(Profile::V3_9) && case.is_with(settings);
    for case in catalogue.cases().iter().filter(is_chosen) {
        match (runner.run(case).await.expect("a server that answers"), case.deviates()) {
            (CaseOutcome::Passed, None) | (CaseOutcome::Failed(_), Some(_)) => {}
            (CaseOutcome::Passed, Some(_)) => {
                wrong.push(format!("{} is no deviation: it passes", case.name()))
            }
            (CaseOutcome::Failed(failure), None) => {
                wrong.push(format!("{} failed: {}\n{failure}", case.name(), failure.reason));
            }
        }
    }
    runner.finish().await.expect("nothing is left");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_answer_and_every_order_of_checks_is_shown_by_a_case() {
    let matrix = Matrix::of(&Catalogue::builtin());
    for (operation, answers) in &matrix.answers {
        for (answer, count) in answers {
            assert!(*count > 0, "no case shows {answer} of {operation}");
        }
    }
    for (operation, order, case) in &matrix.orders {
        assert!(case.is_some(), "no case shows {order} of {operation}");
    }
    assert!(matrix.unknown.is_empty(), "{:?}", matrix.unknown);
}

#[test]
fn each_name_is_given_once() {
    let catalogue = Catalogue::builtin();
    let mut names: Vec<_> = catalogue.cases().iter().map(|case| case.name()).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(names.len() >= 600, "{}", names.len());
}
