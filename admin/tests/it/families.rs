//! Which families there are.

use zoolet_admin::PrometheusText;
use zoolet_server::metrics::families;
use zoolet_test_support::Zk;

use crate::scrape::Scrape;

/// Those of Apache ZooKeeper 3.9.5 right after its start: name, kind, quantiles. `tests/apache/run metrics` compares them with one.
pub const APACHE: &str = include_str!("families-3.9.5.txt");

#[tokio::test]
async fn every_family_of_apache_is_there_from_the_start_with_its_kind() {
    let server = Zk::start().await;
    let text = PrometheusText::new().without_process().write(&server.metrics());
    let (ours, apache): (Vec<_>, Vec<_>) = (Scrape::parse(&text).list(), APACHE.lines().collect());
    assert_eq!(apache.len(), 150);
    let of_apache = ours.iter().filter(|line| !line.starts_with("zoolet_")).collect::<Vec<_>>();
    assert_eq!(of_apache, apache);
}

#[tokio::test]
async fn what_belongs_to_the_process_can_be_left_out() {
    let server = Zk::start().await;
    let text = |text: PrometheusText| Scrape::parse(&text.write(&server.metrics())).list();
    let (with, without) = (text(PrometheusText::new()), text(PrometheusText::new().without_process()));
    let process: Vec<_> = with.iter().filter(|line| !without.contains(line)).collect();
    assert_eq!(process.len(), if cfg!(target_os = "linux") { 6 } else { 0 }, "{process:?}");
    assert!(
        process.iter().all(|line| line.starts_with("process_"))
            && without.len() + process.len() == with.len()
    );
}

#[test]
fn families_have_a_help_text_and_names_that_are_legal() {
    for family in families() {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(family.name.chars().all(legal), "{}", family.name);
        assert!(
            family.help.ends_with('.') && !family.help.contains('\n'),
            "{}: {}",
            family.name,
            family.help
        );
    }
}

#[tokio::test]
async fn a_scrape_may_ask_for_samples_by_name() {
    let server = Zk::start().await;
    let text = |names: &[&str]| {
        let text = PrometheusText::new().only(names.iter().copied()).write(&server.metrics());
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // As 3.9.5 answers `?name[]=znode_count&name[]=readlatency&name[]=readlatency_sum`, but for the order of families.
    let expected = [
        "# HELP readlatency readlatency",
        "# TYPE readlatency summary",
        "readlatency{quantile=\"0.5\",} NaN",
        "readlatency{quantile=\"0.9\",} NaN",
        "readlatency{quantile=\"0.99\",} NaN",
        "readlatency_sum 0.0",
        "# HELP znode_count znode_count",
        "# TYPE znode_count gauge",
        "znode_count 5.0",
    ];
    assert_eq!(text(&["znode_count", "readlatency_sum", "readlatency", "unknown"]), expected);
    assert_eq!(text(&[""]), [""; 0]);
}
