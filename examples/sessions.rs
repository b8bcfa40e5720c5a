//! A program that keeps an ephemeral znode over sessions:
//! `cargo run --example sessions`

#![allow(clippy::print_stdout, reason = "an example prints")]

use zoolet::client::SessionsState;
use zoolet::testing::TestServer;
use zoolet::{Error, Sessions};

/// Creates the znode in each session.
async fn keep_node(sessions: &Sessions) -> Result<(), Error> {
    let mut number = 0;
    loop {
        let term = sessions.term_after(number).await?;
        number = term.number;
        match term.client.create("/worker", "here").ephemeral().await {
            Ok(_) => println!("session {number} has the znode"),
            Err(error) => println!("session {number}: {error}"),
        }
        println!("session {number} is over: {:?}", term.client.ended().await);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await;
    let sessions = Sessions::open(server.options(), server.connector())?;
    let mut changes = sessions.changes();
    let program = tokio::spawn({
        let sessions = sessions.clone();
        async move { keep_node(&sessions).await }
    });
    let first = sessions.client().await?;
    server.wait_until_idle().await?;

    // The server expires the session, and with it the znode goes. The next session creates it again.
    server.expire_session(first.session_id()).await?;
    let mut lost = 0;
    server
        .pass_time_until(async {
            while let Some(change) = changes.next().await {
                println!("{:?} at {:?}: {:?}", change.state, change.server, change.reason);
                lost += u32::from(matches!(change.state, SessionsState::Lost(_)));
                if lost > 0 && change.state == SessionsState::Connected {
                    break;
                }
            }
        })
        .await?;
    server.wait_until_idle().await?;
    assert!(server.get("/worker").is_some_and(|node| node.text() == "here"));

    server.pass_time_until(sessions.close()).await?;
    assert!(program.await?.is_err(), "there are no more sessions");
    Ok(())
}
