//! Our cache under the orders of `benches/caches/run`: a line in, a line of JSON out.
//!
//! `plant ADDRESS DIRECTORIES LEAVES BYTES` makes the tree; `open ADDRESS` opens a cache of it; `change N` sets one znode N times
//! and waits for the listener each time.

use std::error::Error;
use std::io::{BufRead, stdin};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Builder;
use zoolet_client::{Client, Sessions};
use zoolet_recipes::{Cache, CacheChange, CacheChanges};

const ROOT: &str = "/bench-cache";

struct Opened {
    writer: Client,
    _cache: Cache,
    changes: CacheChanges<Bytes>,
}

fn main() -> Result<(), Box<dyn Error>> {
    // Its thread serves the cache between two orders.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut opened = None;
    for line in stdin().lock().lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        let answer = match words[..] {
            ["plant", address, directories, leaves, bytes] => {
                runtime.block_on(plant(address, directories.parse()?, leaves.parse()?, bytes.parse()?))?
            }
            ["open", address] => {
                let (cache, answer) = runtime.block_on(open(address))?;
                opened = Some(cache);
                answer
            }
            ["change", times] => {
                let opened = opened.as_mut().ok_or("nothing is open")?;
                runtime.block_on(change(opened, times.parse()?))?
            }
            _ => return Err(format!("not an order: {line}").into()),
        };
        println!("{answer}");
    }
    Ok(())
}

async fn plant(address: &str, directories: u32, leaves: u32, bytes: usize) -> Result<String, Box<dyn Error>> {
    let zk = Client::connect(address).await?;
    zk.create(ROOT, "").await?;
    let data = "x".repeat(bytes);
    for directory in 0..directories {
        let mut creates = zk.multi().create(format!("{ROOT}/{directory:04}"), "");
        for leaf in 0..leaves {
            creates = creates.create(format!("{ROOT}/{directory:04}/{leaf:04}"), data.clone());
        }
        creates.await?;
    }
    zk.close().await?;
    Ok("{}".into())
}

async fn open(address: &str) -> Result<(Opened, String), Box<dyn Error>> {
    let writer = Client::connect(address).await?;
    let (rss, cpu, began) = (resident()?, cpu()?, Instant::now());
    let options = Client::options().session_timeout(Duration::from_secs(30));
    let sessions = Sessions::open(options, address)?;
    let cache = Cache::builder(&sessions, ROOT).open().await?;
    let (seconds, nodes) = (began.elapsed().as_secs_f64(), cache.snapshot().len());
    let answer = format!(
        "{{\"seconds\": {seconds}, \"cpu\": {}, \"nodes\": {nodes}, \"resident\": {}}}",
        self::cpu()? - cpu,
        resident()?.saturating_sub(rss)
    );
    let changes = cache.changes_since(&cache.snapshot());
    Ok((Opened { writer, _cache: cache, changes }, answer))
}

async fn change(opened: &mut Opened, times: usize) -> Result<String, Box<dyn Error>> {
    let path = format!("{ROOT}/0000/0000");
    let mut latencies = Vec::with_capacity(times);
    let cpu = cpu()?;
    for n in 0..times {
        let began = Instant::now();
        opened.writer.set_data(&path, n.to_string()).await?;
        while let Some(change) = opened.changes.next().await {
            if matches!(&change, CacheChange::Changed { new, .. } if new.path() == path) {
                break;
            }
        }
        latencies.push(began.elapsed().as_micros());
    }
    latencies.sort_unstable();
    let (p50, p99) = (latencies[times / 2], latencies[times * 99 / 100]);
    Ok(format!("{{\"p50\": {p50}, \"p99\": {p99}, \"cpu\": {}}}", self::cpu()? - cpu))
}

/// The CPU time of this process in microseconds.
fn cpu() -> Result<u64, Box<dyn Error>> {
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let account = std::fs::read_to_string(task?.path().join("schedstat"))?;
        total += account.split(' ').next().unwrap_or("0").parse::<u64>()? / 1_000;
    }
    Ok(total)
}

/// The resident memory of this process in KiB.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
