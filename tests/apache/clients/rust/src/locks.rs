//! The crate's lock, whose znodes are named as Curator's.

use std::cell::Cell;

use futures::future::try_join_all;
use zookeeper_client::{Acls, Client, LockPrefix};

use crate::checks::{check, control, equal, in_time, Outcome};
use crate::{connect, PERSISTENT};

const CONTENDERS: usize = 5;
const ROUNDS: usize = 10;

pub async fn run(client: &Client, outside: &Client) -> Outcome {
    client.create("/lock", b"", PERSISTENT).await?;
    client.create("/inherited", b"", PERSISTENT).await?;
    check("lock: five contenders, one at a time", one_at_a_time()).await;
    check("lock: passes on when its holder's session expires", passes_on(outside)).await;
    Ok(())
}

async fn one_at_a_time() -> Outcome {
    let inside = Cell::new(0);
    let held = Cell::new(0);
    let contenders = (0..CONTENDERS).map(|_| async {
        let client = connect(6000).await?;
        for _ in 0..ROUNDS {
            let prefix = LockPrefix::new_curator("/lock", "lock-")?;
            let lock = in_time("the lock", client.lock(prefix, b"", Acls::anyone_all())).await??;
            inside.set(inside.get() + 1);
            equal(inside.get(), 1)?;
            client.get_data("/lock").await?;
            held.set(held.get() + 1);
            inside.set(inside.get() - 1);
            drop(lock);
        }
        Outcome::Ok(())
    });
    try_join_all(contenders).await?;
    equal(held.get(), CONTENDERS * ROUNDS)
}

async fn passes_on(outside: &Client) -> Outcome {
    let brief = connect(1000).await?;
    let held = brief.lock(LockPrefix::new_curator("/inherited", "lock-")?, b"", Acls::anyone_all()).await?;
    control("refuse").await?;
    let heir = outside.lock(LockPrefix::new_curator("/inherited", "lock-")?, b"", Acls::anyone_all());
    drop(in_time("the lock", heir).await??);
    control("heal").await?;
    std::mem::forget(held); // a release would be for the lock of a session that is no more
    Ok(())
}
