//! Our counters, values and queues under the orders of `../../../queues.py` and of `benches/queues/run`: a line in, a line out.

use std::error::Error;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};
use zoolet_client::{Client, Sessions};
use zoolet_recipes::{Counter, CounterLayout, Queue, QueueLayout, SharedValue};

type Answer = Result<String, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let hosts = std::env::args().nth(1).ok_or("hosts are missing")?;
    let sessions = Sessions::open(Client::options(), hosts)?;
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match obey(&sessions, &line).await {
            Ok(answer) => println!("ok {answer}"),
            Err(error) => println!("error {error}"),
        }
    }
    Ok(())
}

async fn obey(sessions: &Sessions, line: &str) -> Answer {
    let words: Vec<_> = line.split(' ').collect();
    Ok(match words[..] {
        ["add", layout, path, delta] => {
            counter(sessions, layout, path)?.add(delta.parse()?).await?.after.to_string()
        }
        ["get", layout, path] => counter(sessions, layout, path)?.get().await?.to_string(),
        ["cas", layout, path, expected, new] => {
            let counter = counter(sessions, layout, path)?;
            counter.compare_and_set(expected.parse()?, new.parse()?).await?.is_ok().to_string()
        }
        ["value", path] => {
            let seen = SharedValue::new(sessions, path).get().await?;
            String::from_utf8(seen.data.unwrap_or_default().to_vec())?
        }
        ["replace", path, data] => {
            SharedValue::new(sessions, path).update(|_| data.to_owned()).await?;
            String::new()
        }
        ["put", "zoolet", path, data] => {
            queue(sessions, path).await?.put(data.to_owned()).await?;
            String::new()
        }
        ["take", "zoolet", path] => take(&queue(sessions, path).await?).await?,
        ["drain", layout, from, path] => {
            let drained = queue(sessions, path).await?.drain_from(from, foreign(layout)?).await?;
            format!("{} {}", drained.moved, drained.left.len())
        }
        ["count", layout, path, times] => {
            let (counter, times) = (counter(sessions, layout, path)?, times.parse::<u32>()?);
            let began = Instant::now();
            for _ in 0..times {
                counter.add(1).await?;
            }
            began.elapsed().as_secs_f64().to_string()
        }
        ["fill", "zoolet", path, times] => {
            let (queue, times) = (queue(sessions, path).await?, times.parse::<u32>()?);
            let began = Instant::now();
            for n in 0..times {
                queue.put(n.to_string()).await?;
            }
            began.elapsed().as_secs_f64().to_string()
        }
        ["empty", "zoolet", path, times] => {
            let (queue, times) = (queue(sessions, path).await?, times.parse::<u32>()?);
            let began = Instant::now();
            for _ in 0..times {
                queue.take().await?.done().await?;
            }
            began.elapsed().as_secs_f64().to_string()
        }
        _ => return Err(format!("not an order: {line}").into()),
    })
}

fn counter(sessions: &Sessions, layout: &str, path: &str) -> Result<Counter, Box<dyn Error>> {
    let layout = match layout {
        "i64" => CounterLayout::CuratorI64,
        "i32" | "shared" => CounterLayout::CuratorI32,
        "text" => CounterLayout::KazooText,
        _ => return Err(format!("not a layout: {layout}").into()),
    };
    Ok(Counter::new(sessions, path, layout))
}

fn foreign(layout: &str) -> Result<QueueLayout, Box<dyn Error>> {
    Ok(match layout {
        "simple" => QueueLayout::CuratorSimple,
        "distributed" => QueueLayout::CuratorDistributed,
        "kazoo" => QueueLayout::Kazoo,
        _ => return Err(format!("not a layout: {layout}").into()),
    })
}

async fn queue(sessions: &Sessions, path: &str) -> Result<Queue, Box<dyn Error>> {
    Ok(Queue::builder(sessions, path).open().await?)
}

/// The data of the next item, which is done by that; `-` if there is none.
async fn take(queue: &Queue) -> Answer {
    let Some(mut delivery) = queue.try_take().await? else { return Ok("-".into()) };
    let data = String::from_utf8(delivery.data().to_vec())?;
    delivery.done().await?;
    Ok(data)
}
