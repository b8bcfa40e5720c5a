//! The sessions, and what one of them has.

use std::sync::Arc;

use serde_json::{Value, json};
use zoolet_proto::SessionId;
use zoolet_server::ConnectionSource;
use zoolet_server_core::{Core, SessionTable, SessionView, Viewer};

use super::answer::{ApiError, ApiResult};
use super::visible::{Reader, hex_of, may_know};
use super::znodes::{SLICE, read};
use crate::http::HttpRequest;

/// Sessions that a request may name, which are shown even if others expire earlier.
const NAMED: usize = 20;
/// Paths of a session that are shown.
const PATHS: usize = 200;

/// A session as it is read in a look, with the numbers of its ephemerals and of its watches.
type Counted = (SessionView, usize, usize);

/// At most 500 sessions, those that expire first, and those that `open` names; by id.
pub(super) async fn sessions(reader: &Reader<'_>, request: &HttpRequest) -> ApiResult {
    let open = request.argument("open").unwrap_or_default();
    let open = open.split(',').filter(|id| !id.is_empty()).take(NAMED);
    let open = open.map(|id| hex_of(id).map(SessionId)).collect::<Result<Vec<_>, _>>()?;
    let look = reader.look(move |core, _| {
        let named = open.into_iter().filter_map(|id| core.sessions().get(id));
        let mut sessions: Vec<SessionView> = core.sessions().iter().take(SLICE).chain(named).collect();
        sessions.sort_unstable_by_key(|session| session.id);
        sessions.dedup_by_key(|session| session.id);
        let counted = |session: SessionView| -> Counted {
            let watches = session.conn.map_or(0, |conn| core.watches().count(conn));
            (session, core.tree().count_ephemerals(session.id), watches)
        };
        (sessions.into_iter().map(counted).collect::<Vec<_>>(), core.sessions().len())
    });
    let (sessions, length) = look.await?;
    let conns: Vec<_> = sessions.iter().map(|(session, ..)| session.conn).collect();
    let rows: Vec<Value> = sessions.iter().zip(reader.sources(&conns)?).map(session_row).collect();
    Ok(json!({ "now": reader.now()?, "length": length, "sessions": rows }))
}

fn session_row(((session, ephemerals, watches), source): (&Counted, Option<ConnectionSource>)) -> Value {
    json!({
        "id": session.id.to_string(),
        "timeout": session.timeout,
        "expires": session.deadline.0,
        "connected": session.conn.is_some(),
        "in_process": SessionTable::is_in_process(session.id),
        "address": source.map(|source| source.addr.to_string()),
        "since": source.map(|source| source.established.0),
        "ephemerals": ephemerals,
        "watches": watches,
    })
}

/// The ephemerals and the watches of a session, as far as the reader may know of their paths.
pub(super) async fn session(reader: &Reader<'_>, request: &HttpRequest) -> ApiResult {
    let id = request.argument("id").ok_or_else(|| ApiError::bad("the argument `id` is missing"))?;
    let id = SessionId(hex_of(id)?);
    let look = reader.look(move |core, _| {
        let session = core.sessions().get(id)?;
        let ephemerals = read(&mut core.tree().ephemerals_after(id, None), PATHS);
        let watches = session.conn.map_or_else(Vec::new, |conn| {
            read(&mut core.watches().paths_of(conn, None).map(|(path, _)| path), PATHS)
        });
        let count = session.conn.map_or(0, |conn| core.watches().count(conn));
        Some(((ephemerals, core.tree().count_ephemerals(id)), (watches, count)))
    });
    let (ephemerals, watches) = look.await?.ok_or_else(ApiError::not_found)?;
    let (ephemerals, watches) = (paths_of(reader, ephemerals).await?, paths_of(reader, watches).await?);
    Ok(json!({ "id": id.to_string(), "ephemerals": ephemerals, "watches": watches }))
}

/// The paths, of as many, that the reader may know of.
async fn paths_of(reader: &Reader<'_>, (paths, length): (Vec<Arc<str>>, usize)) -> ApiResult {
    let all = paths.len();
    let known = |core: &Core, viewer: &Viewer, path: Arc<str>| may_know(core, viewer, &path).then_some(path);
    let known: Vec<_> = reader.look_at_each(paths, known).await?.into_iter().flatten().collect();
    let paths: Vec<&str> = known.iter().map(|path| &**path).collect();
    Ok(json!({ "length": length, "hidden": all - paths.len(), "paths": paths }))
}
