//! The commands that show the server as a whole, its settings and its process.

use zoolet_server::metrics::{ServerMetrics, decimal, monitor_values};
use zoolet_server::{Observer, ServerMode, ServerSummary};

use super::json::JsonWriter;

/// `server_stats`, and the beginning of `stats`. `None` if the server has stopped.
pub(super) async fn server_stats(observer: &Observer, json: &mut JsonWriter) -> Option<()> {
    // Before the summary, which waits until all that was seen is durable.
    let metrics = observer.metrics()?;
    let summary = observer.summary().await?;
    let sizes = observer.directories().await?;
    json.key("version").string(&summary.version);
    json.key("read_only").plain(summary.mode == ServerMode::ReadOnly);
    json.key("server_stats").object();
    json.key("packets_sent").plain(summary.sent);
    json.key("packets_received").plain(summary.received);
    json.key("fsync_threshold_exceed_count").plain(metrics.log.as_ref().map_or(0, |log| log.slow_syncs));
    response_sizes(json, "client_response_stats", &metrics);
    json.key("provider_null").plain(false);
    json.key("data_dir_size").plain(sizes.data_size);
    json.key("log_dir_size").plain(sizes.log_size);
    json.key("last_processed_zxid").plain(summary.zxid.0);
    json.key("outstanding_requests").plain(summary.outstanding);
    json.key("server_state").string(&summary.mode.to_string());
    latencies(json, &summary);
    json.key("num_alive_client_connections").plain(summary.connections);
    json.key("uptime").plain(summary.uptime);
    json.key("auth_failed_count").plain(metrics.tls_handshakes_failed);
    json.key("non_mtlsremote_conn_count").plain(metrics.plaintext_connections_remote);
    json.key("non_mtlslocal_conn_count").plain(metrics.plaintext_connections_local);
    json.end();
    response_sizes(json, "client_response", &metrics);
    json.key("node_count").plain(summary.znodes);
    Some(())
}

fn latencies(json: &mut JsonWriter, summary: &ServerSummary) {
    let latency = summary.latency;
    json.key("avg_latency").plain(decimal(latency.avg));
    json.key("max_latency").plain(latency.max.trunc());
    json.key("min_latency").plain(latency.min.trunc());
}

fn response_sizes(json: &mut JsonWriter, key: &str, metrics: &ServerMetrics) {
    let size = metrics.response_size;
    let number = |value: Option<u64>| value.map_or(-1, |value| i64::try_from(value).unwrap_or(i64::MAX));
    json.key(key).object();
    json.key("last_buffer_size").plain(number(size.map(|size| size.last)));
    json.key("min_buffer_size").plain(number(size.map(|size| size.min)));
    json.key("max_buffer_size").plain(number(size.map(|size| size.max)));
    json.end();
}

pub(super) async fn monitor(observer: &Observer, json: &mut JsonWriter) -> Option<()> {
    // Before the summary, which waits until all that was seen is durable.
    let metrics = observer.metrics()?;
    let summary = observer.summary().await?;
    json.key("version").string(&summary.version);
    json.key("server_state").string(&summary.mode.to_string());
    for (name, value) in monitor_values(&metrics) {
        json.key(&name).plain(value);
    }
    Some(())
}

pub(super) async fn configuration(observer: &Observer, json: &mut JsonWriter) -> Option<()> {
    let config = observer.configuration().await?;
    json.key("client_port").plain(config.client_port.map_or(-1, i32::from));
    json.key("data_dir").string(&config.directories.data);
    json.key("data_log_dir").string(&config.directories.log);
    json.key("tick_time").plain(config.tick_time);
    json.key("max_client_cnxns").plain(config.max_connections_per_ip);
    json.key("min_session_timeout").plain(config.min_session_timeout);
    json.key("max_session_timeout").plain(config.max_session_timeout);
    json.key("server_id").plain(0);
    json.key("client_port_listen_backlog").plain(config.listen_backlog);
    Some(())
}

pub(super) async fn dirs(observer: &Observer, json: &mut JsonWriter) -> Option<()> {
    let sizes = observer.directories().await?;
    json.key("datadir_size").plain(sizes.data_size);
    json.key("logdir_size").plain(sizes.log_size);
    Some(())
}

/// The digest after the last transaction; Apache has those of every 128th.
pub(super) async fn hash(observer: &Observer, json: &mut JsonWriter) -> Option<()> {
    let (zxid, digest) = observer.digest().await?;
    json.key("digests").array();
    if let Some(digest) = digest {
        json.object();
        json.key("zxid").plain(zxid.0);
        // A long of Java, as everywhere in its JSON.
        json.key("digest").plain(digest as i64);
        json.key("digest_version").plain(2);
        json.end();
    }
    json.end();
    Some(())
}

pub(super) async fn is_read_only(observer: &Observer, json: &mut JsonWriter) -> Option<()> {
    let summary = observer.summary().await?;
    json.key("read_only").plain(summary.mode == ServerMode::ReadOnly);
    Some(())
}

pub(super) async fn last_snapshot(observer: &Observer, json: &mut JsonWriter) -> Option<()> {
    let (zxid, time) = match observer.last_snapshot()? {
        Some(snapshot) => (format!("{:x}", snapshot.zxid.0), snapshot.unix_time),
        None => ("ffffffffffffffff".to_owned(), -1),
    };
    json.key("zxid").string(&zxid);
    json.key("timestamp").plain(time);
    Some(())
}

pub(super) fn environment(observer: &Observer, json: &mut JsonWriter) {
    for (name, value) in observer.environment() {
        json.key(name).string(&value);
    }
}

/// There is no JVM. Its properties that say something of the process are there; settings are not, as some are passwords.
pub(super) fn system_properties(observer: &Observer, json: &mut JsonWriter) {
    let mut properties = observer.environment();
    let is_property = |name: &str| {
        ["java.", "os.", "user."].iter().any(|prefix| name.starts_with(prefix))
            && !name.starts_with("os.memory.")
    };
    properties.retain(|(name, _)| is_property(name));
    properties.extend([
        ("file.separator", std::path::MAIN_SEPARATOR_STR.to_owned()),
        ("line.separator", if cfg!(windows) { "\r\n" } else { "\n" }.to_owned()),
        ("path.separator", if cfg!(windows) { ";" } else { ":" }.to_owned()),
    ]);
    properties.sort_unstable();
    for (name, value) in properties {
        json.key(name).string(&value);
    }
}

/// A line of a configuration; if its key names a secret, `(not shown)` stands for the value. A path of a file is not one.
pub(crate) fn without_secret(key: &str, value: &str) -> String {
    let name = key.to_lowercase();
    let is_path = name.ends_with("path") || name.ends_with("file");
    let is_secret =
        ["password", "passwd", "superdigest", "secret", "token"].iter().any(|word| name.contains(word));
    let shown = if is_secret && !is_path { "(not shown)" } else { value };
    format!("{key}={shown}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_configuration_are_not_shown() {
        for (key, is_shown) in [
            ("ssl.keyStore.password", false),
            ("SSL.quorum.trustStore.PASSWORD", false),
            ("DigestAuthenticationProvider.superDigest", false),
            ("ssl.keyStore.passwordPath", true),
            ("tickTime", true),
        ] {
            let shown = if is_shown { "a=b" } else { "(not shown)" };
            assert_eq!(without_secret(key, "a=b"), format!("{key}={shown}\n"));
        }
    }
}
