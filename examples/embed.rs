//! A ZooKeeper inside this program: `cargo run --example embed`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use zoolet::{Client, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The port is for other programs; without `bind` there is no socket at all. Port 0 takes a free one.
    let server = Server::builder().bind("127.0.0.1:0").start().await?;
    println!("any client may connect to {}", server.connect_string());

    // This program needs no socket to talk to its own server, but could as well connect by one.
    let inside = Client::connect(server.in_process()).await?;
    let outside = Client::connect(server.connect_string()).await?;

    inside.create("/jobs", "").await?;
    for payload in ["weigh", "measure", "count"] {
        let created = outside.create("/jobs/job-", payload).sequential().await?;
        println!("queued {payload} as {}", created.path);
    }

    // All of them at once or none of them, in the order in which they came.
    let mut jobs = inside.get_children("/jobs").await?.0;
    jobs.sort();
    let done = jobs.iter().fold(inside.multi(), |multi, job| multi.delete(format!("/jobs/{job}")));
    done.commit().await?;
    println!("did {} jobs", jobs.len());

    // Sessions end first, then the server; afterwards nothing of it is left.
    inside.close().await?;
    outside.close().await?;
    server.shutdown().await;
    Ok(())
}
