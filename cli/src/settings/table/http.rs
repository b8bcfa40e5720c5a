//! The admin server, and the metrics.

#[cfg(feature = "tls")]
use super::FILE;
#[cfg(feature = "tls")]
use super::tls::{parsed, password};
use super::{ADDRESS, BOOL, SettingRow, TIME, flag, key};
use crate::settings::put;
use crate::settings::written::{Written, int};

pub(super) const ROWS: &[SettingRow] = &[
    flag("admin", ADDRESS, "off")
        .help(
            "Address of the admin server: a page to look at, and the commands of Apache ZooKeeper over HTTP",
        )
        .sets(|to, value| put(&mut to.http.admin_bind, value.bind().map(Some))),
    key("admin.enableServer", BOOL, "true, if there is admin.serverPort")
        .help("Whether there is an admin server. On Apache it is on unless this says otherwise")
        .sets(|to, value| put(&mut to.http.admin, value.boolean().map(Some))),
    key("admin.serverAddress", "ADDRESS", "127.0.0.1")
        .help("Its address. On Apache the default is every address of the machine")
        .sets(|to, value| put(&mut to.http.admin_address, value.address().map(Some))),
    key("admin.serverPort", "PORT", "8080")
        .help("Its port")
        .sets(|to, value| put(&mut to.http.admin_port, value.port().map(Some))),
    key("admin.idleTimeout", TIME, "30s")
        .help("Close its connections that are idle for this time")
        .sets(|to, value| put(&mut to.http.idle_timeout, value.interval(int).map(Some))),
    key("admin.commandURL", "PATH", "/commands")
        .help("Path of its commands")
        .sets(|to, value| put(&mut to.http.command_url, path(value).map(Some))),
    key("admin.snapshot.enabled", BOOL, "true")
        .help("Whether its command snapshot is executed, for those who may do everything to the root")
        .sets(|to, value| put(&mut to.http.snapshots, value.boolean().map(Some))),
    key("admin.restore.enabled", BOOL, "true")
        .help("Whether its command restore is executed, for the same")
        .sets(|to, value| put(&mut to.http.restores, value.boolean().map(Some))),
    key("admin.rateLimiterIntervalInMS", TIME, "300ms for snapshots, 5m for restores")
        .help("How often each of the two is executed: once in this time")
        .sets(|to, value| put(&mut to.http.rate_limit, value.time().map(Some))),
    flag("admin-writable", BOOL, "false")
        .help("Let the page of the admin server create, change and delete znodes, as far as ACLs allow it")
        .sets(|to, value| put(&mut to.http.writable, value.boolean())),
    flag("admin-host", "NAME", "none")
        .repeats()
        .help("Name by which browsers may ask for the page, beside those of the loopback and the address. Can be repeated")
        .sets(|to, value| {
            to.http.hosts.push(value.text().to_owned());
            Ok(())
        }),
    #[cfg(feature = "tls")]
    key("admin.forceHttps", BOOL, "false")
        .help("Serve the admin server by HTTPS alone; needs ssl.quorum.keyStore.location")
        .sets(|to, value| put(&mut to.http.https.forced, value.boolean())),
    #[cfg(feature = "tls")]
    key("admin.portUnification", BOOL, "false")
        .help("Serve HTTPS at its port as well")
        .sets(|to, value| put(&mut to.http.https.unified, value.boolean())),
    #[cfg(feature = "tls")]
    key("admin.needClientAuth", BOOL, "false")
        .help("With HTTPS, ask clients for a certificate")
        .sets(|to, value| put(&mut to.http.https.need_client_auth, value.boolean())),
    #[cfg(feature = "tls")]
    key("ssl.quorum.keyStore.location", FILE, "none")
        .help("Certificate chain and private key of HTTPS, as ssl.keyStore.location")
        .sets(|to, value| put(&mut to.http.https.key_store.file, value.file().map(Some))),
    #[cfg(feature = "tls")]
    key("ssl.quorum.keyStore.password", "TEXT", "none")
        .secret()
        .help("Password of that store and of the key in it")
        .sets(|to, value| put(&mut to.http.https.key_store.password, Ok(password(value)))),
    #[cfg(feature = "tls")]
    key("ssl.quorum.keyStore.passwordPath", FILE, "none")
        .help("File with that password; takes precedence over it")
        .sets(|to, value| put(&mut to.http.https.key_store.password_file, value.file().map(Some))),
    #[cfg(feature = "tls")]
    key("ssl.quorum.keyStore.type", "TYPE", "by the content")
        .help("Format of that store: PEM, PKCS12 or JKS")
        .sets(|to, value| put(&mut to.http.https.key_store.kind, parsed(value).map(Some))),
    #[cfg(feature = "tls")]
    key("ssl.quorum.trustStore.location", FILE, "none")
        .help("Certificates of the authorities of those who ask the admin server")
        .sets(|to, value| put(&mut to.http.https.trust_store.file, value.file().map(Some))),
    #[cfg(feature = "tls")]
    key("ssl.quorum.trustStore.password", "TEXT", "none")
        .secret()
        .help("Password of that store")
        .sets(|to, value| put(&mut to.http.https.trust_store.password, Ok(password(value)))),
    #[cfg(feature = "tls")]
    key("ssl.quorum.trustStore.passwordPath", FILE, "none")
        .help("File with that password; takes precedence over it")
        .sets(|to, value| put(&mut to.http.https.trust_store.password_file, value.file().map(Some))),
    #[cfg(feature = "tls")]
    key("ssl.quorum.trustStore.type", "TYPE", "by the content")
        .help("Format of that store: PEM, PKCS12 or JKS")
        .sets(|to, value| put(&mut to.http.https.trust_store.kind, parsed(value).map(Some))),
    flag("metrics", ADDRESS, "off")
        .help("Address of the metrics for Prometheus, at /metrics")
        .sets(|to, value| put(&mut to.http.metrics_bind, value.bind().map(Some))),
    key("metricsProvider.className", "CLASS", "none")
        .help("org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider serves metrics")
        .sets(|to, value| put(&mut to.http.metrics, provider(value))),
    key("metricsProvider.httpHost", "ADDRESS", "all")
        .help("Their address")
        .sets(|to, value| put(&mut to.http.metrics_host, value.address().map(Some))),
    key("metricsProvider.httpPort", "PORT", "7000")
        .help("Their port")
        .sets(|to, value| put(&mut to.http.metrics_port, value.port().map(Some))),
    key("metricsProvider.exportJvmInfo", BOOL, "true")
        .help("Serve the metrics of the process as well")
        .sets(|to, value| put(&mut to.http.without_process, value.boolean().map(|with| !with))),
];

fn path(value: Written<'_>) -> Result<String, String> {
    let text = value.text();
    let is_path =
        text.len() > 1 && text.starts_with('/') && !text.ends_with('/') && !text.contains(['?', '#', '%']);
    is_path.then(|| text.to_owned()).ok_or_else(|| "must be a path such as /commands".to_owned())
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
