//! Removes the subtree of a case from a server that may say anything.

use thiserror::Error;
use zoolet_proto::records::{Delete, GetChildren, SetAcl};
use zoolet_proto::{AclList, ErrorCode, Reply, Request, Zxid};

use crate::wire::connection::{Connection, ReceiveError};

/// How many znodes may be below the root of a subtree. Random requests leave some hundred.
const MOST: usize = 10_000;

/// How deep they may be. Cases create four levels.
const DEEPEST: usize = 50;

/// How long a removal may take, in the time that one answer may take.
const ANSWERS: u32 = 12;

/// Why a removal was given up.
#[derive(Debug, Error)]
pub(crate) enum Unremoved {
    /// The server does not answer, or not as a ZooKeeper does.
    #[error(transparent)]
    Silent(#[from] ReceiveError),
    /// What it lists cannot be what was created.
    #[error("{0}")]
    Unruly(String),
}

/// Removes a subtree as far as the server allows: a case may have locked itself out. Returns whether something is locked, so that the
/// server has refused to delete it.
///
/// # Errors
/// If the removal was given up. Nothing that the server says can make it go on for ever.
pub(crate) async fn remove(owner: &mut Connection, root: &str) -> Result<bool, Unremoved> {
    let time = owner.limit * ANSWERS;
    let removing = async {
        let (paths, mut is_locked, unruly) = walk(owner, root).await?;
        // Children come after their parents.
        for path in paths.into_iter().rev() {
            is_locked |= delete(owner, path).await? == Some(ErrorCode::NoAuth);
        }
        unruly.map_or(Ok(is_locked), |what| Err(Unremoved::Unruly(what)))
    };
    let late =
        || Unremoved::Unruly(format!("what is below {root} is not deleted within {} s", time.as_secs_f64()));
    tokio::time::timeout(time, removing).await.unwrap_or_else(|_| Err(late()))
}

/// The paths of a subtree, parents first, whether one of them may not be listed, and the first name that no znode can have.
async fn walk(owner: &mut Connection, root: &str) -> Result<(Vec<String>, bool, Option<String>), Unremoved> {
    let mut paths = vec![(root.to_owned(), 0)];
    let mut is_locked = false;
    let mut unruly = None;
    let mut at = 0;
    while let Some((path, depth)) = paths.get(at).cloned() {
        at += 1;
        let Some(names) = children(owner, &path).await? else {
            is_locked = true;
            continue;
        };
        for name in names {
            if !is_name(&name) {
                unruly.get_or_insert_with(|| format!("it lists a child of {path} with the name {name:?}"));
                continue;
            }
            // All that is listed below here is the invention of the server: deleting it would lead nowhere.
            if depth == DEEPEST {
                return Err(Unremoved::Unruly(format!("it lists more than {DEEPEST} levels below {root}")));
            }
            if paths.len() > MOST {
                return Err(Unremoved::Unruly(format!("it lists more than {MOST} znodes below {root}")));
            }
            paths.push((format!("{path}/{name}"), depth + 1));
        }
    }
    Ok((paths.into_iter().map(|(path, _)| path).collect(), is_locked, unruly))
}

/// Whether a znode can have the name. A path with another one leads elsewhere, or nowhere.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// The names of the children of a znode, which need not exist. Nothing if nobody may list them.
async fn children(owner: &mut Connection, path: &str) -> Result<Option<Vec<String>>, ReceiveError> {
    let list = Request::GetChildren(GetChildren { path: path.to_owned(), watch: false });
    Ok(match ask(owner, &list, path).await? {
        (None, _, Reply::Children(names)) => Some(names.iter().collect()),
        (Some(ErrorCode::NoAuth), ..) => None,
        _ => Some(Vec::new()),
    })
}

async fn delete(owner: &mut Connection, path: String) -> Result<Option<ErrorCode>, ReceiveError> {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
    let delete = Request::Delete(Delete { path, version: -1 });
    Ok(ask(owner, &delete, &parent).await?.0)
}

/// Asks, and again after everybody was let into the znode that keeps the owner out: a case that has failed may not have come to where
/// it does so itself.
async fn ask(
    owner: &mut Connection,
    request: &Request,
    locked: &str,
) -> Result<(Option<ErrorCode>, Zxid, Reply), ReceiveError> {
    let answer = owner.ask(request).await?;
    if answer.0 != Some(ErrorCode::NoAuth) {
        return Ok(answer);
    }
    let open = SetAcl { path: locked.to_owned(), acl: Some(AclList::OPEN), version: -1 };
    owner.ask(&Request::SetAcl(open)).await?;
    owner.ask(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_znode_can_have_are_not_followed() {
        for name in ["", ".", "..", "/", "a/b", "../x", "a\0b"] {
            assert!(!is_name(name), "{name:?}");
        }
        for name in ["a", "...", ".a", "a b", "ä"] {
            assert!(is_name(name), "{name:?}");
        }
    }
}
