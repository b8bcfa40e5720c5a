//! The admin server, and the metrics.

use zoolet_admin::AdminServerBuilder;

use super::{ADDRESS, BOOL, SettingRow, TIME, flag, key};
use crate::settings::put;
use crate::settings::written::{Written, int};

pub(super) const ROWS: &[SettingRow] = &[
    flag("admin", ADDRESS, "off")
        .builder("AdminServerBuilder::bind")
        .help(
            "Address of the admin server: a page to look at, and the commands of Apache ZooKeeper over HTTP",
        )
        .sets(|to, value| put(&mut to.http.admin_bind, value.bind().map(Some))),
    key("admin.enableServer", BOOL, "true, if there is admin.serverPort")
        .builder("AdminServer::builder")
        .help("Whether there is an admin server. On Apache it is on unless this says otherwise")
        .sets(|to, value| put(&mut to.http.admin, value.boolean().map(Some))),
    key("admin.serverAddress", "ADDRESS", "127.0.0.1")
        .builder("AdminServerBuilder::bind")
        .help("Its address. On Apache the default is every address of the machine")
        .sets(|to, value| put(&mut to.http.admin_address, value.address().map(Some))),
    key("admin.serverPort", "PORT", "8080")
        .builder("AdminServerBuilder::bind")
        .help("Its port")
        .sets(|to, value| put(&mut to.http.admin_port, value.port().map(Some))),
    key("admin.idleTimeout", TIME, "30s")
        .builder("AdminServerBuilder::idle_timeout")
        .help("Close its connections that are idle for this time")
        .sets(|to, value| put(&mut to.http.idle_timeout, value.interval(int).map(Some))),
    key("admin.commandURL", "PATH", "/commands")
        .builder("AdminServerBuilder::command_url")
        .help("Path of its commands")
        .sets(|to, value| put(&mut to.http.command_url, path(value).map(Some))),
    key("admin.snapshot.enabled", BOOL, "true")
        .builder("AdminServerBuilder::snapshots")
        .help("Whether its command snapshot is executed, for those who may do everything to the root")
        .sets(|to, value| put(&mut to.http.snapshots, value.boolean().map(Some))),
    key("admin.restore.enabled", BOOL, "true")
        .builder("AdminServerBuilder::restores")
        .help("Whether its command restore is executed, for the same")
        .sets(|to, value| put(&mut to.http.restores, value.boolean().map(Some))),
    key("admin.rateLimiterIntervalInMS", TIME, "300ms for snapshots, 5m for restores")
        .builder("AdminServerBuilder::rate_limit_interval")
        .help("How often each of the two is executed: once in this time")
        .sets(|to, value| put(&mut to.http.rate_limit, value.time().map(Some))),
    flag("admin-writable", BOOL, "false")
        .builder("AdminServerBuilder::writable_page")
        .help("Let the page of the admin server create, change and delete znodes, as far as ACLs allow it")
        .sets(|to, value| put(&mut to.http.writable, value.boolean())),
    flag("admin-host", "NAME", "none")
        .builder("AdminServerBuilder::page_host")
        .repeats()
        .help("Name by which the admin server and the metrics may be asked, beside those of the loopback and the address. Can be repeated")
        .sets(|to, value| {
            to.http.hosts.push(value.text().to_owned());
            Ok(())
        }),
    flag("metrics", ADDRESS, "off")
        .builder("MetricsServerBuilder::bind")
        .help("Address of the metrics for Prometheus, at /metrics")
        .sets(|to, value| put(&mut to.http.metrics_bind, value.bind().map(Some))),
    key("metricsProvider.className", "CLASS", "none")
        .builder("MetricsServer::builder")
        .help("org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider serves metrics")
        .sets(|to, value| put(&mut to.http.metrics, provider(value))),
    key("metricsProvider.httpHost", "ADDRESS", "all")
        .builder("MetricsServerBuilder::bind")
        .help("Their address")
        .sets(|to, value| put(&mut to.http.metrics_host, value.address().map(Some))),
    key("metricsProvider.httpPort", "PORT", "7000")
        .builder("MetricsServerBuilder::bind")
        .help("Their port")
        .sets(|to, value| put(&mut to.http.metrics_port, value.port().map(Some))),
    key("metricsProvider.exportJvmInfo", BOOL, "true")
        .builder("MetricsServerBuilder::process_families")
        .help("Serve the metrics of the process as well")
        .sets(|to, value| put(&mut to.http.without_process, value.boolean().map(|with| !with))),
];

fn path(value: Written<'_>) -> Result<String, String> {
    match value.text() {
        path if AdminServerBuilder::is_command_url(path) => Ok(path.to_owned()),
        _ => Err("must be a path such as /commands, and not below /api, which is the page's".to_owned()),
    }
}

/// Whether metrics are served.
fn provider(value: Written<'_>) -> Result<bool, String> {
    match value.text().rsplit('.').next() {
        Some("PrometheusMetricsProvider") => Ok(true),
        // They have no endpoint on Apache either.
        Some("DefaultMetricsProvider" | "NullMetricsProvider") => Ok(false),
        _ => Err("only org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider is supported; remove the key to run \
                  without metrics"
            .to_owned()),
    }
}
