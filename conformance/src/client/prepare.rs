//! What a scenario has on the server before the command starts.

use zoolet_proto::records::Op;
use zoolet_proto::{ErrorCode, Request};

use crate::client::director::{LARGE_DATA, MANY_CHILDREN};
use crate::client::scenario::Disturbance;
use crate::wire::connection::{ANSWER_LIMIT, Connection, ReceiveError};
use crate::wire::requests::create;

/// The parent of what is prepared.
pub(crate) const ROOT: &str = "/zoolet-client";

/// How long the name of each child is: all of them are nearly as long as a reply that clients accept by default.
const NAME: usize = 180;

/// How many znodes are created at once.
const BATCH: usize = 1_000;

/// Creates `data` and `children` below [`ROOT`]; what they hold depends on the scenario.
pub(crate) async fn prepare(address: &str, disturbance: Disturbance) -> Result<(), ReceiveError> {
    let opening = Connection::with_session(address, ANSWER_LIMIT).await;
    let mut owner = opening.map_err(|no| ReceiveError::Invalid(no.reason))?;
    let (data, children) = match disturbance {
        Disturbance::LargeReplies => (vec![b'x'; LARGE_DATA], MANY_CHILDREN),
        Disturbance::EmptyReplies => (Vec::new(), 0),
        _ => (b"data".to_vec(), 1),
    };
    let parents = [
        (ROOT.to_owned(), Vec::new()),
        (format!("{ROOT}/data"), data),
        (format!("{ROOT}/children"), Vec::new()),
    ];
    for (path, data) in parents {
        done(owner.ask(&Request::Create(create(path, data))).await?.0)?;
    }
    let names: Vec<_> =
        (0..children).map(|n| format!("{ROOT}/children/child-{n:0>width$}", width = NAME - 6)).collect();
    for batch in names.chunks(BATCH) {
        let ops = batch.iter().map(|path| Op::Create(create(path, "")));
        done(owner.ask(&Request::Multi(ops.collect())).await?.0)?;
    }
    owner.ask(&Request::CloseSession).await?;
    Ok(())
}

/// What was not prepared cannot be exercised.
fn done(error: Option<ErrorCode>) -> Result<(), ReceiveError> {
    error.map_or(Ok(()), |error| Err(ReceiveError::Invalid(format!("it refuses to create a znode: {error}"))))
}
