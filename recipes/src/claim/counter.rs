//! The counter that numbers the children of a directory, and its reset near the end.

use zoolet_client::{Acl, ErrorCode};

use super::names;
use crate::config::{LockConfig, ParentMode};
use crate::error::LockError;
use crate::warning::is_low;

/// Deletes the znode of a contender. If the counter of its directory is low, the same transaction also deletes and creates
/// the directory, which then begins again with 0. If somebody waits in it that transaction fails, and only the znode is
/// deleted.
pub(crate) async fn delete(config: &LockConfig, dir: &str, path: &str) -> Result<bool, LockError> {
    let low = names::parse(path).is_some_and(|parsed| is_low(parsed.sequence));
    // A directory that must not be created here must not be deleted here either.
    if low && dir != "/" && config.parent != ParentMode::MustExist {
        if let Some(deleted) = reset(config, dir, path).await? {
            return Ok(deleted);
        }
    }
    config.delete(path).await
}

/// `None` if the directory cannot be created anew: it is in use, an ACL forbids it, or its ACL cannot be restored.
///
/// The new directory is persistent whatever the old one was. Servers do not report which znodes are containers, and it is
/// worse if somebody's directory vanishes because it became a container than if one of ours stays.
async fn reset(config: &LockConfig, dir: &str, path: &str) -> Result<Option<bool>, LockError> {
    let client = &config.client;
    let mut may_have_applied = false;
    loop {
        let (data, acl) = (client.get_data(dir).send(), client.get_acl(dir).send());
        let (Ok((data, stat)), Ok((acl, _))) = (data.await, acl.await) else { return Ok(None) };
        if acl.iter().any(is_masked) {
            return Ok(None);
        }
        // The version refuses the delete if somebody has written to the directory meanwhile.
        let delete = client.delete(dir).version(stat.version);
        let create = client.create(dir, data).acl(acl);
        match client.multi().delete(path).add(delete).add(create).commit().await {
            Ok(_) => return Ok(Some(true)),
            Err(error) if error.is_retryable() => {
                may_have_applied |= error.may_have_applied();
                config.retry(error).await?;
            }
            Err(error) if error.failed_operation() == Some(0) && error.code() == Some(ErrorCode::NoNode) => {
                return Ok(Some(may_have_applied));
            }
            Err(error) if error.is_session_over() => return Err(config.error(error)),
            Err(_) => return Ok(None),
        }
    }
}

/// Whether the server masks the digest of an entry, as it does for clients that may not change the ACL.
fn is_masked(entry: &Acl) -> bool {
    entry.scheme == "digest" && entry.id.ends_with(":x")
}
