//! The counter that numbers the children of a directory, and its reset near the end.

use zoolet_client::Acl;

use super::names;
use crate::config::{LockConfig, ParentMode};
use crate::error::LockError;
use crate::warning::is_low;

/// Deletes the znode of a contender. If the counter of its directory is low and nobody waits in it, a transaction deletes and
/// creates the directory, which then begins again with 0. The delete comes first and by itself, so that it is sent before a
/// destructor returns: the transaction needs the ACL of the directory.
pub(crate) async fn delete(config: &LockConfig, dir: &str, path: &str) -> Result<bool, LockError> {
    let deleted = config.delete(path).await?;
    let low = names::parse(path).is_some_and(|parsed| is_low(parsed.sequence));
    // A directory that must not be created here must not be deleted here either.
    if low && dir != "/" && config.parent != ParentMode::MustExist {
        reset(config, dir).await?;
    }
    Ok(deleted)
}

/// Creates the directory anew, unless it is in use, an ACL forbids it, or its ACL cannot be restored.
///
/// The new directory is persistent whatever the old one was. Servers do not report which znodes are containers, and it is
/// worse if somebody's directory vanishes because it became a container than if one of ours stays.
async fn reset(config: &LockConfig, dir: &str) -> Result<(), LockError> {
    let client = &config.client;
    loop {
        let read = tokio::try_join!(client.get_data(dir), client.get_acl(dir));
        let Ok(((data, stat), (acl, _))) = read else { return Ok(()) };
        if acl.iter().any(is_masked) {
            return Ok(());
        }
        // The version refuses the delete if somebody has written to the directory meanwhile.
        let delete = client.delete(dir).version(stat.version);
        let create = client.create(dir, data).acl(acl);
        match client.multi().add(delete).add(create).commit().await {
            Err(error) if error.is_retryable() => config.retries().retry(error).await?,
            Err(error) if error.is_session_over() => return Err(config.error(error)),
            // Nothing, or somebody is in it.
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

/// Whether the server masks the digest of an entry, as it does for clients that may not change the ACL.
fn is_masked(entry: &Acl) -> bool {
    entry.scheme == "digest" && entry.id.ends_with(":x")
}
