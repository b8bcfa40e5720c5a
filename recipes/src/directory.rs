//! Znodes that others stand below.

use zoolet_client::{Acl, Client, Error, ErrorCode, parent_of};

/// Creates `path` and what lacks above it, in one round trip, as containers if so wanted and known to the server.
///
/// # Errors
/// What keeps `path` from being there. After a lost connection some of it may be there; asking again is harmless.
pub(crate) async fn create_all(
    client: &Client,
    path: &str,
    acl: &[Acl],
    container: bool,
) -> Result<(), Error> {
    let mut paths = Vec::new();
    let mut next = path;
    while next != "/" {
        paths.push(next);
        next = parent_of(next);
    }
    let send = |path: &&str, container: bool| {
        let create = client.create(*path, "").acl(acl.to_vec());
        if container { create.container().send() } else { create.send() }
    };
    let mut container = container;
    loop {
        let replies: Vec<_> = paths.iter().rev().map(|path| send(path, container)).collect();
        let mut last = Ok(());
        for reply in replies {
            // What is wrong higher up shows again below, if it matters there.
            last = match reply.await {
                Ok(_) => Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
                Err(error) => Err(error),
            };
        }
        match last {
            Err(error) if container && error.code() == Some(ErrorCode::Unimplemented) => container = false,
            last => return last,
        }
    }
}
