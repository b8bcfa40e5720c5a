//! A server with something to see, and its page: `cargo run --example page --features admin`.
//!
//! `--writable` lets the page change znodes, `--children N` creates as many in `/big` (1,000 without it), and `--data DIR` keeps the
//! state there. It ends when its standard input does, or by Ctrl-C.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use tokio::io::AsyncReadExt;
use zoolet::admin::AdminServer;
use zoolet::client::{Acl, Perms};
use zoolet::{Client, Election, Lock, RwLock, Semaphore, Server};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let (mut writable, mut children, mut settings) = (false, 1_000, Server::builder());
    while let Some(arg) = args.next() {
        match &*arg {
            "--writable" => writable = true,
            "--children" => children = args.next().ok_or("--children: how many?")?.parse()?,
            "--data" => settings = settings.data_dir(args.next().ok_or("--data: which directory?")?),
            other => return Err(format!("{other}: unknown; see the first lines of examples/page.rs").into()),
        }
    }
    let server = settings.bind("127.0.0.1:0").start().await?;
    let client = Client::connect(server.connect_string()).await?;
    fill(&client, children).await?;

    // Three programs want one lock, two read and one wants to write, and so on.
    let (a, b, c) = (session(&server).await?, session(&server).await?, session(&server).await?);
    let _held = Lock::new(&a, "/locks/ledger").acquire().await?;
    let _read =
        (RwLock::new(&a, "/locks/prices").read().await?, RwLock::new(&b, "/locks/prices").read().await?);
    let _permits = Semaphore::new(&b, "/slots", 3).acquire(2).await?;
    // A name is a name, whatever it looks like.
    let _odd = Lock::new(&a, "/locks/<svg onload=document.title='run'>").acquire().await?;
    let _leads = Election::new(&c, "/election").campaign("10.0.0.7:80").await?;
    for client in [b.clone(), c.clone()] {
        tokio::spawn(async move { Lock::new(&client, "/locks/ledger").acquire().await });
    }
    let writer = c.clone();
    tokio::spawn(async move { RwLock::new(&writer, "/locks/prices").write().await });
    let (_, _watch) = client.exists("/config/app").watch().await?;

    let admin = AdminServer::builder(&server).bind("127.0.0.1:0");
    let admin = if writable { admin.writable_page() } else { admin }.start().await?;
    println!("{}", admin.url());
    println!("{}", server.connect_string());
    println!("until its input ends (Ctrl-D) or Ctrl-C");

    let ticks = traffic(&client);
    let (mut input, mut rest) = (tokio::io::stdin(), Vec::new());
    tokio::select! {
        failed = ticks => failed?,
        _ = input.read_to_end(&mut rest) => {}
    }
    admin.shutdown().await;
    server.shutdown().await;
    Ok(())
}

/// Some reads and writes each second, now more and now fewer.
async fn traffic(client: &Client) -> Result<(), Failure> {
    for tick in 0u64.. {
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.set_data("/config/heartbeat", tick.to_string()).await?;
        let reads = 40 + tick % 17 * (tick % 5) * 8;
        let reads: Vec<_> = (0..reads).map(|_| client.get_data("/config/app").send()).collect();
        for read in reads {
            read.await?;
        }
        let job = format!("/tasks/job-{tick}");
        match tick % 4 {
            0 => drop(client.create(&job, "to do").await?),
            1 => {
                let done = format!("/tasks/job-{}", tick - 1);
                let done = client.multi().set_data(&done, "done").delete(&done);
                drop(done.commit().await?);
            }
            2 => drop(client.delete("/tasks/none").await),
            _ => {}
        }
    }
    Ok(())
}

async fn session(server: &Server) -> Result<Client, Failure> {
    Ok(Client::connect(server.connect_string()).await?)
}

async fn fill(client: &Client, children: usize) -> Result<(), Failure> {
    client.create("/config", "").await?;
    let app = r#"{"name": "orders", "limits": {"max": 9007199254740993, "rate": 12.50}, "hosts": ["10.0.0.7", "10.0.0.8"], "empty": {}}"#;
    client.create("/config/app", app).await?;
    client.create("/config/motd", "Grüße aus dem Baum\nsecond line\n").await?;
    client.create("/config/heartbeat", "0").await?;
    client.create("/config/empty", "").await?;
    let blob: Vec<u8> = (0..200_000u32).map(|at| (at * 31 % 251) as u8).collect();
    client.create("/config/blob", blob).await?;
    client
        .create(
            "/config/<img src=x onerror=\"document.title='run'\">",
            "<script>document.title='run'</script>",
        )
        .await?;
    client.create("/config/a name that is much longer than the pane in which the tree is drawn, and goes on and on and on", "").await?;
    let bob = Acl::digest(Perms::ALL, "bob", "secret");
    client.create("/secret", "of bob").acl(vec![bob]).await?;
    client.create("/sessions", "").await?;
    client.create("/sessions/worker-1", "").ephemeral().await?;
    client.create("/tasks", "").container().await?;
    // A container is deleted some time after its last child.
    client.create("/tasks/job", "").await?;
    client.create("/big", "").await?;
    let mut created = Vec::new();
    for at in 0..children {
        created.push(client.create(format!("/big/node-{at:06}"), "").send());
        if created.len() == 500 {
            for created in created.drain(..) {
                created.await?;
            }
        }
    }
    for created in created {
        created.await?;
    }
    Ok(())
}
