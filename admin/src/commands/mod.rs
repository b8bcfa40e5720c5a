//! The commands of Apache ZooKeeper's admin server: names, fields, their order, statuses and the layout of the text.
//!
//! The order of checks is that of `Commands.runCommand`: an unknown name, a server that does not serve, authorization, and then the
//! command.

mod authorization;
mod json;
mod limiter;
mod lists;
mod state;
mod table;
mod transfers;

use std::time::Duration;

use hyper::StatusCode;
use zoolet_server::Observer;

use crate::http::{HttpBody, HttpRequest, HttpResponse, ListPermits};
use json::JsonWriter;
pub(crate) use state::without_secret;
use table::Command;
use transfers::Transfers;

const JSON: &str = "application/json";
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// The commands of a server.
pub(crate) struct Commands {
    observer: Observer,
    /// The path before the names, `/commands`.
    prefix: String,
    /// What `initial_configuration` shows, without secrets.
    configuration: String,
    transfers: Transfers,
    lists: ListPermits,
}

/// Who may take and restore snapshots, and how often.
#[derive(Debug, Clone)]
pub(crate) struct TransferSettings {
    pub(crate) snapshots: bool,
    pub(crate) restores: bool,
    pub(crate) snapshot_interval: Duration,
    pub(crate) restore_interval: Duration,
    /// Whether other machines may do so without HTTPS.
    pub(crate) allow_plain: bool,
}

impl Default for TransferSettings {
    fn default() -> Self {
        Self {
            snapshots: true,
            restores: true,
            // Apache takes the number of milliseconds for one of microseconds here.
            snapshot_interval: Duration::from_millis(300),
            restore_interval: Duration::from_secs(300),
            allow_plain: false,
        }
    }
}

impl Commands {
    pub(crate) fn new(
        observer: Observer,
        prefix: String,
        configuration: String,
        transfers: TransferSettings,
        lists: ListPermits,
    ) -> Self {
        let transfers = Transfers::new(observer.clone(), transfers);
        Self { observer, prefix, configuration, transfers, lists }
    }

    /// The answer to a request; `None` if its path is not one of a command.
    pub(crate) async fn answer(&self, request: &HttpRequest, body: &mut HttpBody) -> Option<HttpResponse> {
        let rest = request.path.strip_prefix(&*self.prefix)?;
        match rest.strip_prefix('/') {
            None if rest.is_empty() => Some(self.list()),
            None => None,
            Some("") => Some(self.list()),
            Some(name) => Some(self.command(name, request, body).await),
        }
    }

    /// The names, as links.
    fn list(&self) -> HttpResponse {
        let link = |command: Command| {
            let (prefix, name) = (&self.prefix, command.name());
            format!("<a href=\"{prefix}/{name}\">{name}</a>\n<br/>\n")
        };
        HttpResponse::untyped(StatusCode::OK, Command::ALL.map(link).concat())
    }

    async fn command(&self, name: &str, request: &HttpRequest, body: &mut HttpBody) -> HttpResponse {
        let Some(command) = Command::named(name) else {
            return failed(StatusCode::OK, name, &format!("Unknown command: {name}"));
        };
        if !command.needs_no_server() && self.observer.now().is_none() {
            return failed(StatusCode::OK, name, NOT_SERVING);
        }
        if command.needs_authorization() {
            let allow_plain = self.transfers.settings.allow_plain;
            if let Err((status, error)) = authorization::check(&self.observer, request, allow_plain) {
                return failed(status, name, error);
            }
        }
        if request.is_post != (command == Command::Restore) {
            // What Apache answers, which has no such method of the command.
            return HttpResponse::error_page(StatusCode::INTERNAL_SERVER_ERROR, &request.path);
        }
        let transferred = match command {
            Command::Restore => Some(self.transfers.restore(request, body).await),
            Command::Snapshot => Some(self.transfers.snapshot(request).await),
            _ => None,
        };
        if let Some(transferred) = transferred {
            return transferred.unwrap_or_else(|(status, error)| failed(status, command.name(), &error));
        }
        let permit = if command.lists() { self.lists.take().await } else { None };
        if command.lists() && permit.is_none() {
            return failed(StatusCode::SERVICE_UNAVAILABLE, command.name(), ListPermits::NONE);
        }
        let mut json = JsonWriter::new();
        let response = match self.fields(command, request, &mut json).await {
            Some(Ok(())) => executed(command, json),
            Some(Err(error)) => {
                let mut json = JsonWriter::new();
                json.key("error").string(&error);
                json.key("command").string(command.name());
                HttpResponse::text(StatusCode::OK, JSON, json.finish())
            }
            // It has stopped meanwhile.
            None if command == Command::Monitor => {
                failed(StatusCode::INTERNAL_SERVER_ERROR, name, NOT_SERVING)
            }
            None => failed(StatusCode::OK, name, NOT_SERVING),
        };
        response.holding(permit, request)
    }

    /// Writes the fields of a command, or nothing if it has an error of its own. `None` if the server has stopped.
    async fn fields(
        &self,
        command: Command,
        request: &HttpRequest,
        json: &mut JsonWriter,
    ) -> Option<Result<(), String>> {
        let observer = &self.observer;
        match command {
            Command::Configuration => state::configuration(observer, json).await?,
            Command::ConnectionStatReset => observer.reset_connections()?,
            Command::Connections => lists::connections(observer, json, false).await?,
            Command::Dirs => state::dirs(observer, json).await?,
            Command::Dump => lists::dump(observer, json).await?,
            Command::Environment => state::environment(observer, json),
            Command::GetTraceMask => json.key("tracemask").plain(observer.trace_mask().unwrap_or_default()),
            Command::SetTraceMask => return Some(self.set_trace_mask(request, json)),
            Command::Hash => state::hash(observer, json).await?,
            Command::InitialConfiguration => json.key("initial_configuration").string(&self.configuration),
            Command::IsReadOnly => state::is_read_only(observer, json).await?,
            Command::LastSnapshot => state::last_snapshot(observer, json).await?,
            Command::Leader => return Some(Err("server is not initialized".to_owned())),
            Command::Monitor => state::monitor(observer, json).await?,
            Command::ObserverConnectionStatReset | Command::Ruok => {}
            Command::Observers => {
                json.key("synced_observers").plain(0);
                json.key("observers").array();
                json.end();
            }
            // Answered before.
            Command::Restore | Command::Snapshot => {}
            Command::ServerStats => state::server_stats(observer, json).await?,
            Command::StatReset => observer.reset_statistics()?,
            Command::Stats => {
                state::server_stats(observer, json).await?;
                lists::connections(observer, json, true).await?;
            }
            Command::SystemProperties => state::system_properties(observer, json),
            Command::VotingView => {
                json.key("current_config").object();
                json.end();
            }
            Command::WatchSummary => lists::watch_summary(observer, json).await?,
            Command::Watches => lists::watches(observer, json).await?,
            Command::WatchesByPath => lists::watches_by_path(observer, json).await?,
            Command::Zabstate => {
                json.key("voting").plain(false);
                json.key("zabstate").string("");
            }
        }
        Some(Ok(()))
    }

    fn set_trace_mask(&self, request: &HttpRequest, json: &mut JsonWriter) -> Result<(), String> {
        const WANTED: &str = "setTraceMask requires long traceMask argument";
        let argument = request.argument("traceMask").ok_or(WANTED)?;
        let mask = argument.parse().map_err(|_| format!("{WANTED}, got {argument}"))?;
        let _ = self.observer.set_trace_mask(mask);
        json.key("tracemask").plain(mask);
        Ok(())
    }
}

/// The answer to a command that was executed, with its own fields.
fn executed(command: Command, json: JsonWriter) -> HttpResponse {
    HttpResponse::text(StatusCode::OK, JSON, finish(json, command.name(), None))
}

/// The text with the fields that come last in most answers.
fn finish(mut json: JsonWriter, name: &str, error: Option<&str>) -> String {
    json.key("command").string(name);
    json.key("error");
    match error {
        Some(error) => json.string(error),
        None => json.null(),
    }
    json.finish()
}

/// The answer to a command that was not executed.
fn failed(status: StatusCode, name: &str, error: &str) -> HttpResponse {
    HttpResponse::text(status, JSON, finish(JsonWriter::new(), name, Some(error)))
}
