//! A program that goes on after its session has ended, with a new client; and after it has lost its lock alone, with the old one:
//! `cargo run --example new_session`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use zoolet::recipes::LockError;
use zoolet::testing::{TestServer, handshake};
use zoolet::{Client, Lock, SessionId};

/// Works whenever it holds the lock, session after session.
async fn worker(server: &TestServer, holds: UnboundedSender<SessionId>) -> Result<(), LockError> {
    loop {
        // A real program connects to its servers here, and tries again after `Unreachable`.
        let zk = server.client().await;
        match work_in(&zk, &holds).await {
            // Everything that belongs to the session is made anew: locks, ephemerals, watches, identities of `add_auth`.
            Err(LockError::SessionOver { reason, .. }) => println!("the session is over: {reason}"),
            ended => {
                zk.close().await?;
                return ended;
            }
        }
    }
}

/// Works as long as the session lasts.
async fn work_in(zk: &Client, holds: &UnboundedSender<SessionId>) -> Result<(), LockError> {
    let lock = Lock::new(zk, "/locks/report");
    loop {
        // In a session that is over this fails with `SessionOver`. Without a connection it waits.
        let guard = lock.acquire().await?;
        println!("session {} holds the lock with token {}", guard.session_id(), guard.token());
        if holds.send(guard.session_id()).is_err() {
            return Ok(());
        }
        // The work itself; it is dropped when the lock is lost.
        let Err(reason) = guard.run(std::future::pending::<()>()).await else { return Ok(()) };
        // The session may be over or not. The next acquisition shows that.
        println!("the lock is lost: {reason}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await;
    let (holds, mut holder) = unbounded_channel();
    let operator = async {
        let first = holder.recv().await.ok_or("no holder")?;

        // The server hears nothing from the client and expires the session.
        server.expire_session(first).await?;
        let second = holder.recv().await.ok_or("no holder")?;
        assert_ne!(second, first);

        // No answer for so long that the session may be over: the lock counts as lost. But the server is back in time.
        server.freeze(second).await?;
        server.faults().on(handshake().session(second)).freeze()?;
        server.advance(Duration::from_secs(9)).await?;
        server.faults().clear();
        server.unfreeze_all().await?;
        let third = server.pass_time_until(holder.recv()).await?.ok_or("no holder")?;
        assert_eq!(third, second, "the session was not over");

        // The program is asked to end.
        drop(holder);
        server.expire_session(third).await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    let (worked, operated) = tokio::join!(worker(&server, holds), operator);
    worked?;
    operated
}
