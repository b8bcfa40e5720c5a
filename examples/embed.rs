//! A ZooKeeper server inside this program: `cargo run --example embed`

#![allow(clippy::print_stdout, reason = "an example prints")]

use zoolet::{Client, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The port is for other programs; without `bind` there is no socket at all. Port 0 picks a free port.
    let server = Server::builder().bind("127.0.0.1:0").start().await?;
    println!("listening on {}", server.connect_string());

    // This program can connect to its own server without a socket, or by TCP like any other.
    let inside = Client::connect(server.in_process()).await?;
    let outside = Client::connect(server.connect_string()).await?;

    inside.create("/jobs", "").await?;
    for payload in ["weigh", "measure", "count"] {
        let created = outside.create("/jobs/job-", payload).sequential().await?;
        println!("queued {payload} as {}", created.path);
    }

    // One transaction: all deletes or none, in the order of the queue.
    let mut jobs = inside.get_children("/jobs").await?.0;
    jobs.sort();
    let finished = jobs.iter().fold(inside.multi(), |multi, job| multi.delete(format!("/jobs/{job}")));
    finished.commit().await?;
    println!("finished {} jobs", jobs.len());

    // Close the sessions, then the server. No task, port or thread remains.
    inside.close().await?;
    outside.close().await?;
    server.shutdown().await;
    Ok(())
}
