//! The number that a directory gives its children, and what is done about its end.

use zoolet_client::{Acl, ErrorCode};

use crate::error::LockError;
use crate::name;
use crate::setup::{ParentMode, Setup};
use crate::warning::is_low;

/// Deletes the znode of a contender. Where the counter of its directory is low, the directory is made anew in the same
/// transaction, by which it begins again with 0; if somebody waits in it that fails as a whole and only the znode is
/// deleted.
pub(crate) async fn delete(setup: &Setup, dir: &str, path: &str) -> Result<bool, LockError> {
    let low = name::parse(path).is_some_and(|parsed| is_low(parsed.sequence));
    // A directory that was not to be created here is not to be deleted here either.
    if low && dir != "/" && setup.parent != ParentMode::MustExist {
        if let Some(deleted) = reset(setup, dir, path).await? {
            return Ok(deleted);
        }
    }
    setup.delete(path).await
}

/// `None` if the directory cannot be made anew: it is in use, an ACL forbids it, or it could not be made as it was.
///
/// It is persistent then, whatever it was. Servers do not say which znodes are containers, and a directory of somebody's
/// that went because it became one is worse than one that was ours and stays.
async fn reset(setup: &Setup, dir: &str, path: &str) -> Result<Option<bool>, LockError> {
    let client = &setup.client;
    let mut may_be_done = false;
    loop {
        let (data, acl) = (client.get_data(dir).send(), client.get_acl(dir).send());
        let (Ok((data, stat)), Ok((acl, _))) = (data.await, acl.await) else { return Ok(None) };
        if acl.iter().any(is_hidden) {
            return Ok(None);
        }
        // Not if somebody has written to it meanwhile.
        let delete = client.delete(dir).version(stat.version);
        let create = client.create(dir, data).acl(acl);
        match client.multi().delete(path).add(delete).add(create).commit().await {
            Ok(_) => return Ok(Some(true)),
            Err(error) if error.is_retryable() => {
                may_be_done |= error.may_have_applied();
                setup.retry(error).await?;
            }
            Err(error) if error.failed_operation() == Some(0) && error.code() == Some(ErrorCode::NoNode) => {
                return Ok(Some(may_be_done));
            }
            Err(error) if error.is_session_over() => return Err(setup.error(error)),
            Err(_) => return Ok(None),
        }
    }
}

/// Whether an entry is one whose digest the server keeps to itself, as it does from whoever may not change the ACL.
fn is_hidden(entry: &Acl) -> bool {
    entry.scheme == "digest" && entry.id.ends_with(":x")
}
