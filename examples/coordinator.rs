//! A durable coordinator inside this program, which leads by it: `cargo run --example coordinator -- DIR`
//!
//! Kill it, with SIGKILL too, and start it again: it leads at once, and other clients resume their sessions.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::process::ExitCode;

use zoolet::{Client, Election, Server};

#[tokio::main]
async fn main() -> ExitCode {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "coordinator-data".to_owned());
    match run(&dir).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(dir: &str) -> Result<(), Box<dyn Error>> {
    // What this program does with its own threads holds up no client.
    let server = Server::builder().data_dir(dir).bind("127.0.0.1:0").on_own_thread().start().await?;
    println!("other programs connect to {}", server.connect_string());

    // In process: this session ends with the program, so the next run of it does not wait for its timeout.
    let client = Client::connect(server.in_process()).await?;
    let leadership = Election::new(&client, "/leader").campaign("the coordinator").await?;
    println!("leads with fencing token {}", leadership.token());

    let outcome: Result<(), Box<dyn Error>> = tokio::select! {
        _ = tokio::signal::ctrl_c() => Ok(()),
        reason = leadership.lost() => Err(format!("no longer leads: {reason}").into()),
        // The disk has failed: nothing was acknowledged that is not on it. Only a new server can go on.
        failure = server.failed() => Err(failure.into()),
    };

    // From the inside to the outside: what is held, then the session, then the server, which writes a snapshot.
    leadership.resign().await.ok();
    client.close().await.ok();
    server.shutdown().await;
    outcome
}
