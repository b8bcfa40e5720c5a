//! The table of `docs/metrics.md` is that of the families.

use std::fmt::Write as _;
use std::fs;

use zoolet_server::metrics::{MetricFamily, MetricKind, MetricValue, ServerMetrics, families};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
const END: &str = "<!-- end of families -->";

fn rows(title: &str, wanted: impl Fn(&MetricFamily) -> bool) -> String {
    let mut text = format!("\n### {title}\n\n| family | kind | |\n| --- | --- | --- |\n");
    let metrics = ServerMetrics::default();
    for family in families().filter(|family| wanted(family)) {
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::BasicSummary => "summary (0.5)",
            MetricKind::AdvancedSummary => "summary (0.5, 0.9, 0.99)",
        };
        let key = match family.value(&metrics) {
            MetricValue::Numbers(_) | MetricValue::Summaries(_) => ", key",
            _ => "",
        };
        // Without backticks, which the check of the documentation takes for names of tests.
        writeln!(text, "| {} | {kind}{key} | {} |", family.name, family.help).expect("a string");
    }
    text
}

#[test]
fn the_page_of_metrics_has_every_family() {
    let page = fs::read_to_string(PAGE).expect("the page");
    let (before, rest) = page.split_once("<!-- families").expect("where the table begins");
    let (comment, _) = rest.split_once("-->\n").expect("the end of a comment");
    let (_, after) = rest.split_once(END).expect("where the table ends");
    let tables = [
        rows("Of Apache ZooKeeper", |family| family.is_of_apache() && family.moves()),
        rows("Of Zoolet", |family| !family.is_of_apache()),
        rows("Of Apache ZooKeeper, without a counterpart", |family| !family.moves()),
    ];
    let expected = format!("{before}<!-- families{comment}-->\n{}\n{END}{after}", tables.concat());
    if std::env::var_os("ZOOLET_BLESS").is_some() {
        fs::write(PAGE, expected).expect("a page that can be written");
        return;
    }
    let command = "ZOOLET_BLESS=1 cargo test -p zoolet-server --test it metrics_page";
    assert!(page == expected, "docs/metrics.md is not that of the families: {command} writes it");
}
