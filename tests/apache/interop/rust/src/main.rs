//! The locks of two crates, ours and zookeeper-client, by the protocol of ../../README.md: contenders by name, each with
//! a session and a task of its own.
#![allow(clippy::print_stdout, reason = "it answers there")]

mod foreign;
mod ours;

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

pub(crate) const SESSION: Duration = Duration::from_secs(10);

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A client's session.
pub(crate) enum Session {
    Ours(zoolet_client::Client),
    Foreign(zookeeper_client::Client),
}

/// Whatever is held; dropping it gives it up as well.
pub(crate) enum Held {
    Ours(ours::Held),
    Foreign(zookeeper_client::OwnedLockClient),
}

impl Session {
    async fn open(client: &str, hosts: &str) -> Outcome<Self> {
        match client {
            "zoolet" => Ok(Self::Ours(ours::connect(hosts).await?)),
            "zookeeper-client" => Ok(Self::Foreign(foreign::connect(hosts).await?)),
            other => Err(format!("{other}: no such client").into()),
        }
    }

    async fn acquire(&self, dir: &str, kind: &str) -> Outcome<Held> {
        match self {
            Self::Ours(client) => Ok(Held::Ours(ours::acquire(client, dir, kind).await?)),
            Self::Foreign(client) => Ok(Held::Foreign(foreign::acquire(client, dir, kind).await?)),
        }
    }

    /// What is done under the lock. Who writes counts in two steps and without a look at versions: whoever does the same
    /// meanwhile takes one away. Who reads sees to it that nobody counts meanwhile.
    async fn work(&self, kind: &str, counter: &str) -> Outcome<()> {
        let count = self.count(counter).await?;
        if kind.starts_with("read") {
            let again = self.count(counter).await?;
            return if again == count { Ok(()) } else { Err("another client writes while this one reads".into()) };
        }
        let sum = (count + 1).to_string();
        match self {
            Self::Ours(client) => drop(client.set_data(counter, sum).await?),
            Self::Foreign(client) => drop(client.set_data(counter, sum.as_bytes(), None).await?),
        }
        Ok(())
    }

    async fn count(&self, counter: &str) -> Outcome<u64> {
        let text = match self {
            Self::Ours(client) => client.get_data(counter).await?.0.to_vec(),
            Self::Foreign(client) => client.get_data(counter).await?.0,
        };
        Ok(String::from_utf8(text)?.parse()?)
    }
}

impl Held {
    async fn release(self) -> Outcome<()> {
        match self {
            Self::Ours(held) => held.release().await,
            Self::Foreign(lock) => {
                drop(lock); // deletes the znode in the background
                Ok(())
            }
        }
    }
}

async fn obey(session: &Session, held: &mut Option<Held>, words: &[String]) -> Outcome<String> {
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["acquire", id, dir, kind] => {
            *held = Some(session.acquire(dir, kind).await?);
            Ok(format!("acquired {id}"))
        }
        ["release", id] => {
            held.take().ok_or("nothing is held")?.release().await?;
            Ok(format!("released {id}"))
        }
        ["hear", id] => {
            let Some(Held::Ours(held)) = held else { return Err("nothing of ours is held".into()) };
            held.revoke_requested().await?;
            Ok(format!("heard {id}"))
        }
        ["contend", id, dir, kind, counter, millis] => {
            let end = Instant::now() + Duration::from_millis(millis.parse()?);
            let mut times = 0;
            while Instant::now() < end {
                let held = session.acquire(dir, kind).await?;
                session.work(kind, counter).await?;
                held.release().await?;
                times += 1;
            }
            Ok(format!("contended {id} {times}"))
        }
        _ => match session {
            Session::Ours(client) => ours::look(client, words).await,
            Session::Foreign(_) => Err("no such command".into()),
        },
    }
}

async fn serve(id: String, client: String, hosts: String, mut commands: UnboundedReceiver<Vec<String>>) {
    let mut session = None;
    let mut held = None;
    while let Some(words) = commands.recv().await {
        let answer = async {
            let session = match &mut session {
                Some(open) => open,
                none => none.insert(Session::open(&client, &hosts).await?),
            };
            obey(session, &mut held, &words).await
        };
        match answer.await {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("error {id} {}", error.to_string().replace('\n', " ")),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let [client, hosts] = &env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("usage: contender zoolet|zookeeper-client HOST:PORT".into());
    };
    let mut contenders: HashMap<String, (UnboundedSender<Vec<String>>, JoinHandle<()>)> = HashMap::new();
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<_> = line.split_whitespace().map(String::from).collect();
        let id = words.get(1).ok_or("a command without a name")?.clone();
        if words[0] == "close" {
            if let Some((_, task)) = contenders.remove(&id) {
                task.abort();
                let _ = task.await;
            }
            println!("closed {id}");
            continue;
        }
        let (commands, _) = contenders.entry(id.clone()).or_insert_with(|| {
            let (sender, receiver) = unbounded_channel();
            (sender, tokio::spawn(serve(id, client.clone(), hosts.clone(), receiver)))
        });
        commands.send(words)?;
    }
    Ok(())
}
