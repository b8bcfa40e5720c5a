//! `snapshot` and `restore`: the whole state, streamed.
//!
//! A snapshot is a file before it is sent, so that its length is known and a client that reads slowly holds up nobody. A body to be
//! restored is kept in a file until it is complete.

use std::error::Error;

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use tempfile::TempDir;
use tokio::time::Instant;
use zoolet_server::{Observer, RestoreError, SnapshotError, TakenSnapshot};

use super::json::JsonWriter;
use super::limiter::RateLimiter;
use super::table::Command;
use super::{TransferSettings, executed};
use crate::http::{HttpBody, HttpRequest, HttpResponse, PieceSender};

/// Takes snapshots and restores them, and counts that.
pub(super) struct Transfers {
    observer: Observer,
    pub(super) settings: TransferSettings,
    snapshots: RateLimiter,
    restores: RateLimiter,
}

/// Why a command is refused: the status and the reason, which Apache has in its log only.
type Refused = (StatusCode, String);

impl Transfers {
    pub(super) fn new(observer: Observer, settings: TransferSettings) -> Self {
        let (snapshots, restores) =
            (RateLimiter::new(settings.snapshot_interval), RateLimiter::new(settings.restore_interval));
        Self { observer, settings, snapshots, restores }
    }

    pub(super) async fn snapshot(&self, request: &HttpRequest) -> Result<HttpResponse, Refused> {
        if !self.settings.snapshots {
            return Err(disabled("admin.snapshot.enabled"));
        }
        if !self.snapshots.allows() {
            self.observer.count_admin(|counts| counts.snapshots_rate_limited += 1);
            tracing::warn!(peer = %request.client.addr, "too many snapshots are asked for; refusing one");
            return Err(too_often(&self.snapshots));
        }
        let taken = match self.take().await {
            Ok(taken) => taken,
            Err(error) => {
                self.observer.count_admin(|counts| counts.snapshot_errors += 1);
                tracing::warn!(%error, "cannot take a snapshot");
                return Err(match error.downcast_ref() {
                    Some(SnapshotError::Busy) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
                    _ => failed(&*error),
                });
            }
        };
        tracing::info!(peer = %request.client.addr, zxid = %taken.zxid(), bytes = taken.size(), "snapshot taken");
        // True if it is left out; otherwise only the word true is.
        let streaming = request.argument("streaming").is_none_or(|value| value.eq_ignore_ascii_case("true"));
        if !streaming {
            return Ok(with_fields(executed(Command::Snapshot, JsonWriter::new()), &taken));
        }
        let (response, sender) =
            HttpResponse::stream(StatusCode::OK, "application/octet-stream", Some(taken.size()));
        let response = with_fields(response, &taken);
        // Ends with the response: sending fails then.
        request.tasks.spawn(send(taken, sender));
        Ok(response)
    }

    async fn take(&self) -> Result<TakenSnapshot, Box<dyn Error + Send + Sync>> {
        // Only a server in memory writes there. The file that is open stays when the directory is removed.
        let spool = TempDir::new()?;
        Ok(self.observer.take_snapshot(spool.path()).await?)
    }

    pub(super) async fn restore(
        &self,
        request: &HttpRequest,
        body: &mut HttpBody,
    ) -> Result<HttpResponse, Refused> {
        if !self.settings.restores {
            return Err(disabled("admin.restore.enabled"));
        }
        if !self.restores.allows() {
            self.observer.count_admin(|counts| counts.restores_rate_limited += 1);
            tracing::warn!(peer = %request.client.addr, "too many restores are asked for; refusing one");
            return Err(too_often(&self.restores));
        }
        let begun = Instant::now();
        match self.take_over(request, body).await {
            Ok(zxid) => {
                let millis = begun.elapsed().as_secs_f64() * 1_000.0;
                self.observer.count_admin(|counts| counts.restore_time_ms.add(millis));
                let peer = request.client.addr;
                tracing::warn!(%peer, zxid = format_args!("{zxid:#x}"), "a snapshot has taken the place of the whole state");
                let mut json = JsonWriter::new();
                json.key("last_zxid").plain(zxid);
                Ok(executed(Command::Restore, json))
            }
            Err(error) => {
                self.observer.count_admin(|counts| counts.restore_errors += 1);
                tracing::warn!(peer = %request.client.addr, %error, "cannot restore a snapshot");
                Err(failed(&*error))
            }
        }
    }

    async fn take_over(
        &self,
        request: &HttpRequest,
        body: &mut HttpBody,
    ) -> Result<i64, Box<dyn Error + Send + Sync>> {
        let spool = TempDir::new()?;
        let mut restore = self.observer.begin_restore(spool.path()).await?;
        while let Some(piece) = body.next().await? {
            restore.write(piece).await?;
        }
        // In a task of its own: a client that has gone must not leave its answer open, nor the work half known.
        let finished = request.tasks.spawn(async move {
            let outcome = restore.finish().await;
            drop(spool);
            outcome
        });
        let zxid = finished.await.map_err(|_| RestoreError::Stopped)??;
        Ok(zxid.0)
    }
}

fn disabled(setting: &str) -> Refused {
    (StatusCode::SERVICE_UNAVAILABLE, format!("disabled by {setting}"))
}

fn too_often(limiter: &RateLimiter) -> Refused {
    let reason = format!("one in {:?} is allowed; the next in {:?}", limiter.interval(), limiter.wait());
    (StatusCode::TOO_MANY_REQUESTS, reason)
}

fn failed(error: &dyn Error) -> Refused {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// The header fields of a snapshot.
fn with_fields(response: HttpResponse, taken: &TakenSnapshot) -> HttpResponse {
    let zxid = HeaderValue::from_str(&format!("{:#x}", taken.zxid().0));
    let response = match zxid {
        Ok(zxid) => response.with_header(HeaderName::from_static("last_zxid"), zxid),
        Err(_) => response,
    };
    response.with_header(HeaderName::from_static("snapshot_size"), HeaderValue::from(taken.size()))
}

/// Sends a file, piece by piece, as the client takes it.
async fn send(mut taken: TakenSnapshot, sender: PieceSender) {
    while let Some(piece) = taken.read().await.transpose() {
        if let Err(error) = &piece {
            tracing::warn!(%error, "cannot read a snapshot that is being sent");
        }
        let failed = piece.is_err();
        if sender.send(piece).await.is_err() || failed {
            return;
        }
    }
}
