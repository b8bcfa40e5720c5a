//! One znode, the children of one, and the search among them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use zoolet_proto::{Acl, ErrorCode, Stat, path};
use zoolet_server_core::{Core, Owner, Viewer};

use super::answer::{ApiError, ApiResult};
use super::visible::{Reader, path_of};
use crate::http::HttpRequest;

/// Bytes of data that are shown.
const SHOWN_DATA: usize = 64 << 10;
/// Entries of an ACL that are shown.
const SHOWN_ACL: usize = 100;
/// How many children one look reads, and after how many bytes of paths it stops.
pub(super) const SLICE: usize = 500;
const SLICE_BYTES: usize = 256 << 10;
/// Names that one search looks at, that it returns, and their bytes: the page asks for the rest.
const SEARCHED: usize = 20_000;
const FOUND: usize = 500;
const FOUND_BYTES: usize = 1 << 20;

/// One znode: data, Stat, ACL and owner.
pub(super) async fn znode(reader: &Reader<'_>, request: &HttpRequest) -> ApiResult {
    let path = path_of(request)?;
    let asked = path.clone();
    let look = reader.look(move |core, viewer| {
        let node = core.view(viewer, &asked)?;
        let data = node.data().map(|data| (data.len(), data.slice(..data.len().min(SHOWN_DATA))));
        core.view_acl(viewer, &asked).map(|acl| (node.stat(), node.owner(), data, acl))
    });
    let (stat, owner, data, acl) = look.await?.map_err(|code| ApiError::refused(code, &path))?;
    let data = match data {
        Some((length, shown)) => json!({ "length": length, "base64": BASE64.encode(shown) }),
        None => json!({ "length": null, "base64": "" }),
    };
    let entries: Vec<Value> = acl.iter().take(SHOWN_ACL).map(acl_entry).collect();
    Ok(json!({
        "path": path,
        "now": reader.now()?,
        "owner": owner_of(owner),
        "data": data,
        "stat": stat_of(&stat),
        "acl": entries,
        "acl_length": acl.len(),
    }))
}

/// Children in the order of their names, from the one after `after`: at most 500.
pub(super) async fn children(reader: &Reader<'_>, request: &HttpRequest) -> ApiResult {
    let path = path_of(request)?;
    let limit = request.argument("limit").and_then(|limit| limit.parse().ok()).unwrap_or(SLICE);
    let limit: usize = limit.clamp(1, SLICE);
    let after = request.argument("after").map(|name| path::join(&path, name));
    let asked = path.clone();
    let look = reader.look(move |core, viewer| {
        let node = core.view(viewer, &asked)?;
        let total = node.children().len();
        let (slice, more) = slice(core, &asked, after.as_deref(), limit);
        Ok((total, slice, more))
    });
    let (total, slice, more) = look.await?.map_err(|code| ApiError::refused(code, &path))?;
    let listed = slice.len();
    let children = child_rows(reader, slice).await?;
    Ok(json!({ "total": total - (listed - children.len()), "children": children, "more": more }))
}

/// What the tree shows of these, but for those that are gone by now.
async fn child_rows(reader: &Reader<'_>, paths: Vec<Arc<str>>) -> ApiResult<Vec<Value>> {
    let row = |core: &Core, viewer: &Viewer, path: Arc<str>| {
        let (children, ephemeral) = match core.view(viewer, &path) {
            Ok(node) => (Some(node.children().len()), node.owner().as_session().is_some()),
            Err(ErrorCode::NoNode) => return None,
            // The number of children is a part of the Stat, which not everybody may read who may list the names.
            Err(_) => (None, false),
        };
        Some(json!([path::name(&path), children, ephemeral]))
    };
    Ok(reader.look_at_each(paths, row).await?.into_iter().flatten().collect())
}

/// Children whose names contain a text, from the one after `after`. Looks at 20,000 of them at most, and says whether there are more.
pub(super) async fn search(reader: &Reader<'_>, request: &HttpRequest) -> ApiResult {
    let dir = path_of(request)?;
    let text = request.argument("text").unwrap_or_default().to_owned();
    // A search with a capital letter is case-sensitive.
    let exact = text.chars().any(char::is_uppercase);
    let mut after: Option<Arc<str>> = request.argument("after").map(|name| path::join(&dir, name).into());
    let (mut names, mut looked, mut more) = (Vec::<String>::new(), 0, true);
    let is_full = |names: &[String]| {
        names.len() >= FOUND || names.iter().map(String::len).sum::<usize>() >= FOUND_BYTES
    };
    while more && looked < SEARCHED && !is_full(&names) {
        let (asked, from) = (dir.clone(), after.clone());
        let look = reader.look(move |core, viewer| {
            core.view(viewer, &asked)?;
            Ok(slice(core, &asked, from.as_deref(), SLICE))
        });
        let (children, rest) = look.await?.map_err(|code| ApiError::refused(code, &dir))?;
        looked += children.len();
        more = rest;
        let name = |child: &Arc<str>| path::name(child).to_owned();
        let matches = |name: &String| {
            if exact { name.contains(&text) } else { name.to_lowercase().contains(&text) }
        };
        names.extend(children.iter().map(name).filter(matches));
        after = children.last().cloned().or(after);
    }
    let next = after.filter(|_| more).map(|after| path::name(&after).to_owned());
    Ok(json!({ "names": names, "looked": looked, "more": more, "next": next }))
}

/// The paths of the next children of a znode, and whether there are more.
fn slice(core: &Core, path: &str, after: Option<&str>, limit: usize) -> (Vec<Arc<str>>, bool) {
    let Some(node) = core.tree().get(path) else { return (Vec::new(), false) };
    let mut children = node.children_after(after);
    let slice = read(&mut children, limit);
    (slice, children.next().is_some())
}

/// The next paths, as many as are read in one look.
pub(super) fn read<'p>(paths: &mut impl Iterator<Item = &'p Arc<str>>, limit: usize) -> Vec<Arc<str>> {
    let (mut read, mut bytes) = (Vec::new(), 0);
    while read.len() < limit && bytes < SLICE_BYTES {
        let Some(path) = paths.next() else { break };
        bytes += path.len();
        read.push(Arc::clone(path));
    }
    read
}

fn stat_of(stat: &Stat) -> Value {
    json!({
        "czxid": stat.czxid.to_string(),
        "mzxid": stat.mzxid.to_string(),
        "pzxid": stat.pzxid.to_string(),
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "children": stat.num_children,
    })
}

fn owner_of(owner: Owner) -> Value {
    match (owner.as_session(), owner.as_ttl()) {
        (Some(session), _) => json!({ "kind": "ephemeral", "session": session.to_string() }),
        (None, Some(ttl)) => json!({ "kind": "ttl", "ttl": ttl }),
        (None, None) if owner == Owner::CONTAINER => json!({ "kind": "container" }),
        (None, None) => json!({ "kind": "persistent" }),
    }
}

fn acl_entry(entry: &Acl) -> Value {
    json!([format!("{:?}", entry.perms), entry.scheme, entry.id])
}

#[cfg(test)]
mod tests {
    use zoolet_server::Server;

    use super::*;

    #[tokio::test]
    async fn a_child_that_is_gone_when_it_is_looked_at_is_not_shown_as_one_that_is_hidden() {
        let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
        let observer = server.observer();
        let paths = ["/gone", "/zookeeper"].map(Arc::from).to_vec();
        let rows = child_rows(&Reader::anonymous(&observer), paths).await.expect("a server that runs");
        assert_eq!(rows, [json!(["zookeeper", 2, false])]);
    }
}
