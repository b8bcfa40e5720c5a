//! [`Reader`]: with which identities a request reads, and what these may see.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::AUTHORIZATION;
use zoolet_proto::path;
use zoolet_server::{ConnectionSource, Observer};
use zoolet_server_core::{ConnId, Core, Viewer};

use super::answer::{ApiError, ApiResult};
use crate::http::HttpRequest;

/// After this time a look at many things lets clients be served before it goes on. One thing more is finished first: to check the longest
/// ACL, of tens of thousands of entries, takes several milliseconds, as it does for a client.
const LOOK_TIME: Duration = Duration::from_millis(2);

/// Who has sent a request: a client at its address, with the credentials of its header field `Authorization: digest user:password`.
pub(super) struct Reader<'o> {
    pub(super) observer: &'o Observer,
    viewer: Viewer,
    pub(super) peer: SocketAddr,
    /// `user:password`.
    pub(super) credentials: Option<Vec<u8>>,
}

impl<'o> Reader<'o> {
    /// # Errors
    /// `Unauthorized` if the credentials are not of a known form, are refused, or do not suffice for the server.
    pub(super) async fn of(request: &HttpRequest, observer: &'o Observer) -> ApiResult<Self> {
        let peer = request.client.addr;
        let viewer = Viewer::new(peer.ip());
        let field = request.headers.get(AUTHORIZATION);
        let credentials = field.map(|field| credentials_of(field.as_bytes())).transpose()?;
        let given = credentials.clone();
        let look = observer.look(move |core| {
            let mut viewer = viewer;
            if given.is_some_and(|given| !core.authenticate_viewer(&mut viewer, "digest", &given)) {
                return Err("the server has refused these credentials");
            }
            // As for any client, also where ACLs would allow it.
            if core.admits_viewer(&viewer) {
                Ok(viewer)
            } else {
                Err("the server requires an identity of another scheme")
            }
        });
        let viewer = look.await.ok_or_else(ApiError::stopped)?.map_err(unauthorized)?;
        Ok(Self { observer, viewer, peer, credentials })
    }

    /// Somebody on this machine who has proved nothing.
    #[cfg(test)]
    pub(super) fn anonymous(observer: &'o Observer) -> Self {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        Self { observer, viewer: Viewer::new(peer.ip()), peer, credentials: None }
    }

    /// Looks at the state between two turns of the server, with the identities of the reader.
    ///
    /// # Errors
    /// If the server has stopped.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Core, &Viewer) -> T + Send + 'static,
    ) -> ApiResult<T> {
        let viewer = self.viewer.clone();
        self.observer.look(move |core| look(core, &viewer)).await.ok_or_else(ApiError::stopped)
    }

    /// Looks at each of these in their order, in as many looks as it takes.
    ///
    /// # Errors
    /// If the server has stopped.
    pub(super) async fn look_at_each<I: Send + 'static, T: Send + 'static>(
        &self,
        items: Vec<I>,
        look: impl Fn(&Core, &Viewer, I) -> T + Clone + Send + 'static,
    ) -> ApiResult<Vec<T>> {
        let mut seen = Vec::with_capacity(items.len());
        let mut items = items.into_iter();
        while items.len() > 0 {
            let look = look.clone();
            let slice = self.look(move |core, viewer| {
                let (begun, mut slice) = (Instant::now(), Vec::new());
                while begun.elapsed() < LOOK_TIME {
                    let Some(item) = items.next() else { break };
                    slice.push(look(core, viewer, item));
                }
                (slice, items)
            });
            let (slice, rest) = slice.await?;
            seen.extend(slice);
            items = rest;
        }
        Ok(seen)
    }

    /// Where each of these connections comes from, if it is there.
    ///
    /// # Errors
    /// If the server has stopped.
    pub(super) fn sources(&self, conns: &[Option<ConnId>]) -> ApiResult<Vec<Option<ConnectionSource>>> {
        let named: Vec<ConnId> = conns.iter().copied().flatten().collect();
        let mut sources = self.observer.sources(&named).ok_or_else(ApiError::stopped)?.into_iter();
        Ok(conns.iter().map(|conn| conn.and_then(|_| sources.next().flatten())).collect())
    }

    /// The time of the server.
    ///
    /// # Errors
    /// If the server has stopped.
    pub(super) fn now(&self) -> ApiResult<i64> {
        self.observer.now().map(|now| now.0).ok_or_else(ApiError::stopped)
    }

    /// The user, without the password.
    pub(super) fn user(&self) -> Option<String> {
        let user = self.credentials.as_deref()?.split(|byte| *byte == b':').next()?;
        Some(String::from_utf8_lossy(user).into_owned())
    }
}

/// `user:password` of a header field.
fn credentials_of(field: &[u8]) -> ApiResult<Vec<u8>> {
    let (scheme, credentials) = field.split_at_checked(7).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case(b"digest ") || credentials.is_empty() {
        return Err(unauthorized("the credentials must have the form: digest user:password"));
    }
    Ok(credentials.to_vec())
}

fn unauthorized(message: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
}

/// The argument `path` of a request.
///
/// # Errors
/// If it is missing or cannot be the path of a znode.
pub(super) fn path_of(request: &HttpRequest) -> ApiResult<String> {
    let path = request.argument("path").ok_or_else(|| ApiError::bad("the argument `path` is missing"))?;
    valid_path(path)
}

/// # Errors
/// If it cannot be the path of a znode.
pub(super) fn valid_path(path: &str) -> ApiResult<String> {
    match path::validate(path) {
        Ok(()) => Ok(path.to_owned()),
        Err(error) => Err(ApiError::bad(format!("{}: {error}", path.escape_debug()))),
    }
}

/// A session id or a zxid: `0x1f`.
///
/// # Errors
/// If it is not a hexadecimal number of 64 bits.
pub(super) fn hex_of(text: &str) -> ApiResult<i64> {
    let number = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let number = number.map(|number| i64::from_ne_bytes(number.to_ne_bytes()));
    number
        .ok_or_else(|| ApiError::bad(format!("{}: expected 0x and hexadecimal digits", text.escape_debug())))
}

/// Whether a reader may know of a path: it may read the znode, or list the parent. If both have gone, nobody knows who might.
pub(super) fn may_know(core: &Core, viewer: &Viewer, path: &str) -> bool {
    core.view(viewer, path).is_ok() || (path != "/" && core.view(viewer, path::parent(path)).is_ok())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::yield_now;
    use zoolet_server::Server;

    use super::*;

    #[tokio::test]
    async fn others_are_served_between_slow_parts_of_a_look_at_many_things() {
        let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
        let observer = server.observer();
        let reader = Reader::anonymous(&observer);
        let served = Arc::new(AtomicUsize::new(0));
        let others = Arc::clone(&served);
        let others = tokio::spawn(async move {
            loop {
                others.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        let slow = move |_: &Core, _: &Viewer, item: char| {
            let begun = Instant::now();
            while begun.elapsed() < LOOK_TIME {}
            (item, served.load(Ordering::Relaxed))
        };
        let seen = reader.look_at_each(vec!['a', 'b', 'c'], slow).await.expect("a server that runs");
        others.abort();
        assert!(seen.iter().map(|(item, _)| *item).eq(['a', 'b', 'c']), "{seen:?}");
        assert!(seen.is_sorted_by(|(_, before), (_, after)| before < after), "{seen:?}");
    }
}
