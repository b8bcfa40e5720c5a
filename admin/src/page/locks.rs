//! The lock queues in the tree: directories of sequential ephemerals, with the names that known recipes give them. They are found by
//! way of the ephemerals of all sessions, of which there are far fewer than znodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use zoolet_proto::contender::{self, ContenderKind, ContenderName};
use zoolet_proto::{ErrorCode, SessionId, Zxid, path};
use zoolet_server::ConnectionSource;
use zoolet_server_core::{ConnId, Core, Viewer};

use super::answer::ApiResult;
use super::visible::Reader;
use super::znodes::{SLICE, read};

/// Ephemerals that are looked at, and queues and contenders of each that are shown.
const LOOKED: usize = 50_000;
const QUEUES: usize = 200;
const CONTENDERS: usize = 50;
/// The longest path of a contender that is shown: a lock has a short one.
const MAX_PATH: usize = 512;

/// What the semaphores of Curator and ours call the permits in use: all of them are held.
const LEASES: &str = "semaphore leases";
/// A lock that is one znode, beside a znode that counts its holders (`SingleNode`).
const SINGLE: &str = "single znode lock";
const EPOCH: &str = ".epoch";

/// The queues, by path.
type Queues = BTreeMap<String, Vec<Contender>>;

/// A znode in a queue.
#[derive(Debug)]
struct Contender {
    path: Arc<str>,
    /// `None` for a lock that is one znode.
    name: Option<ContenderName>,
    /// What only those see who may read the znode.
    seen: Option<Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    czxid: Zxid,
    ctime: i64,
    session: SessionId,
    conn: Option<ConnId>,
}

/// All queues whose directory the reader may list.
pub(super) async fn locks(reader: &Reader<'_>) -> ApiResult {
    let (mut queues, looked, all) = find(reader).await?;
    let more = !all || queues.len() > QUEUES;
    let mut shown = Vec::new();
    while let Some((dir, contenders)) = queues.pop_first().filter(|_| shown.len() < QUEUES) {
        if let Some(queue) = see(reader, &dir, contenders).await? {
            shown.push(queue);
        }
    }
    Ok(json!({ "now": reader.now()?, "queues": shown, "looked": looked, "more": more }))
}

/// Finds all queues, also those that a viewer may not see. Returns how many ephemerals were looked at, and whether those are all.
async fn find(reader: &Reader<'_>) -> ApiResult<(Queues, usize, bool)> {
    let owners = reader.look(|core, _| core.tree().owners()).await?;
    let (mut queues, mut looked) = (Queues::new(), 0);
    for owner in owners {
        let mut after: Option<Arc<str>> = None;
        loop {
            let from = after.take();
            let look = reader.look(move |core, _| {
                let mut paths = core.tree().ephemerals_after(owner, from.as_deref());
                let slice = read(&mut paths, SLICE);
                let contender = |path: &Arc<str>| {
                    let name = contender::parse(path::name(path));
                    let is_shown = name.is_some() || core.tree().get(&format!("{path}{EPOCH}")).is_some();
                    is_shown.then(|| Contender { path: Arc::clone(path), name, seen: None })
                };
                let short = slice.iter().filter(|path| path.len() <= MAX_PATH);
                let contenders: Vec<Contender> = short.filter_map(contender).collect();
                (slice, contenders, paths.next().is_some())
            });
            let (slice, contenders, more) = look.await?;
            looked += slice.len();
            after = slice.last().cloned();
            for contender in contenders {
                let Contender { path, name, .. } = &contender;
                let dir = if name.is_some() { path::parent(path) } else { path };
                queues.entry(dir.to_owned()).or_default().push(contender);
            }
            if looked >= LOOKED {
                return Ok((queues, looked, false));
            }
            if !more {
                break;
            }
        }
    }
    Ok((queues, looked, true))
}

/// One queue as the reader sees it; `None` if it may not list the directory, or nobody is left in the queue.
async fn see(reader: &Reader<'_>, dir: &str, mut contenders: Vec<Contender>) -> ApiResult<Option<Value>> {
    let found = contenders.len();
    // By number first, so that those in front are among the ones that are looked up.
    contenders.sort_by_key(|contender| contender.name.map_or(0, |name| name.sequence));
    let by_number = numbers_decide(&contenders);
    if by_number {
        contenders.truncate(CONTENDERS);
    }
    let listed = contenders.first().map(|first| path::parent(&first.path).to_owned()).unwrap_or_default();
    if !reader.look(move |core, viewer| core.view(viewer, &listed).is_ok()).await? {
        return Ok(None);
    }
    let see = |core: &Core, viewer: &Viewer, contender: Contender| {
        let seen = match core.view(viewer, &contender.path) {
            Ok(node) => {
                let (session, stat) = (node.owner().as_session()?, node.stat());
                let conn = core.sessions().get(session).and_then(|session| session.conn);
                Some(Seen { czxid: stat.czxid, ctime: stat.ctime, session, conn })
            }
            // It has left the queue since it was found.
            Err(ErrorCode::NoNode) => return None,
            Err(_) => None,
        };
        Some(Contender { seen, ..contender })
    };
    let looked = contenders.len();
    let mut seen: Vec<_> = reader.look_at_each(contenders, see).await?.into_iter().flatten().collect();
    let length = found - (looked - seen.len());
    if length == 0 {
        return Ok(None);
    }
    if !by_number {
        seen.sort_by_key(|contender| contender.seen.map_or(Zxid(i64::MAX), |seen| seen.czxid));
        seen.truncate(CONTENDERS);
    }
    let conns: Vec<_> = seen.iter().map(|contender| contender.seen?.conn).collect();
    let recipe = recipe(&seen);
    let known = states(&seen, recipe).into_iter().zip(reader.sources(&conns)?);
    let rows: Vec<Value> =
        seen.iter().zip(known).map(|(contender, (state, source))| row(contender, state, source)).collect();
    Ok(Some(json!({
        "path": dir,
        "recipe": recipe.unwrap_or("sequential ephemerals"),
        "known": recipe.is_some(),
        "length": length,
        "contenders": rows,
    })))
}

fn row(contender: &Contender, state: &str, source: Option<ConnectionSource>) -> Value {
    let seen = contender.seen;
    json!({
        "path": &*contender.path,
        "name": path::name(&contender.path),
        "state": state,
        "shared": contender.name.is_some_and(|name| name.kind == ContenderKind::Shared),
        "token": seen.map(|seen| seen.czxid.to_string()),
        "since": seen.map(|seen| seen.ctime),
        "session": seen.map(|seen| seen.session.to_string()),
        "address": source.map(|source| source.addr.to_string()),
    })
}

/// Whether the numbers give the order in which contenders came. After the end of the counter they are equal or negative.
fn numbers_decide(sorted: &[Contender]) -> bool {
    let numbers = || sorted.iter().map(|contender| contender.name.map_or(0, |name| name.sequence));
    numbers().all(|number| (0..i64::from(i32::MAX)).contains(&number))
        && numbers().zip(numbers().skip(1)).all(|(one, next)| one != next)
}

/// The recipe that uses such names, if a known one does.
fn recipe(queue: &[Contender]) -> Option<&'static str> {
    let known = |contender: &Contender| match contender.name {
        Some(_) => contender::recipe(path::name(&contender.path)),
        None => Some(SINGLE),
    };
    let mut recipes = queue.iter().filter_map(known);
    let first = recipes.next();
    // Writers of kazoo have the names of its plain locks, and readers show what they are.
    recipes.find(|recipe| recipe.contains("read/write")).or(first)
}

/// For each contender `holds` or `waits`; `first` and `next` if nobody knows what the queue is for.
fn states(queue: &[Contender], recipe: Option<&str>) -> Vec<&'static str> {
    let mut exclusive_before = false;
    let state = |(at, contender): (usize, &Contender)| {
        let is_shared = contender.name.is_some_and(|name| name.kind == ContenderKind::Shared);
        let holds = match recipe {
            Some(LEASES) => true,
            _ if is_shared => !exclusive_before,
            _ => at == 0,
        };
        exclusive_before |= !is_shared;
        match (recipe.is_some(), holds) {
            (true, true) => "holds",
            (true, false) => "waits",
            (false, true) => "first",
            (false, false) => "next",
        }
    };
    queue.iter().enumerate().map(state).collect()
}

#[cfg(test)]
mod tests {
    use zoolet_server::Server;
    use zoolet_test_support::{Hello, Wire, create, ephemeral};

    use super::*;

    fn queue(names: &[&str]) -> Vec<Contender> {
        let contender = |name: &&str| Contender {
            path: format!("/q/{name}").into(),
            name: contender::parse(name),
            seen: None,
        };
        names.iter().map(contender).collect()
    }

    fn judged(names: &[&str]) -> (Option<&'static str>, String) {
        let queue = queue(names);
        let recipe = recipe(&queue);
        (recipe, states(&queue, recipe).join(" "))
    }

    #[test]
    fn who_holds_follows_from_the_recipe() {
        for (names, recipe, states) in [
            (&["lock-0000000001", "lock-0000000002"][..], Some("lock"), "holds waits"),
            (
                &[
                    "a-__READ__0000000001",
                    "b-__READ__0000000002",
                    "c-__WRIT__0000000003",
                    "d-__READ__0000000004",
                ],
                Some("read/write lock"),
                "holds holds waits waits",
            ),
            (&["a-__WRIT__0000000001", "b-__READ__0000000002"], Some("read/write lock"), "holds waits"),
            (&["a__lock__0000000001", "b__rlock__0000000002"], Some("kazoo read/write lock"), "holds waits"),
            (&["a-lease-0000000001", "b-lease-0000000002"], Some(LEASES), "holds holds"),
            (&["a-latch-0000000001", "b-latch-0000000002"], Some("leader latch"), "holds waits"),
            (&["x0000000001", "x0000000002"], None, "first next"),
        ] {
            assert_eq!(judged(names), (recipe, states.to_owned()), "{names:?}");
        }
    }

    #[test]
    fn numbers_that_are_equal_or_past_the_counter_do_not_give_the_order() {
        assert!(numbers_decide(&queue(&["lock-0000000001", "lock-0000000002"])));
        assert!(!numbers_decide(&queue(&["a-lock-0000000002", "b-lock-0000000002"])));
        assert!(!numbers_decide(&queue(&["lock--000000002", "lock-0000000002"])));
        assert!(!numbers_decide(&queue(&["lock-0000000001", "lock-2147483647"])));
    }

    #[tokio::test]
    async fn who_is_gone_when_it_is_looked_at_does_not_hold_the_lock() {
        let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
        let observer = server.observer();
        let reader = Reader::anonymous(&observer);
        let stream = observer.connect_for(reader.peer).expect("a connection");
        let mut client = Wire::open(stream, Hello::new()).await;
        client.ask(create("/q")).await;
        client.ask(ephemeral("/q/lock-0000000002")).await;
        let left = see(&reader, "/q", queue(&["lock-0000000001", "lock-0000000002"])).await;
        let left = left.expect("a server that runs").expect("a queue");
        assert_eq!((&left["length"], left["contenders"].as_array().map(Vec::len)), (&json!(1), Some(1)));
        let holder = &left["contenders"][0];
        assert_eq!((&holder["name"], &holder["state"]), (&json!("lock-0000000002"), &json!("holds")));
        let nobody = see(&reader, "/q", queue(&["lock-0000000001"])).await;
        assert_eq!(nobody.expect("a server that runs"), None);
    }
}
