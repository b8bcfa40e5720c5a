//! A contender: a program that acquires the lock again and again, and what it believed at each time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::sleep;
use zoolet::client::SessionState;
use zoolet::{Client, Error, ErrorCode, Guard, Lock, LockError, LostReason};

use crate::simulation::world::{Site, TIMEOUT, now};

/// The directory of the lock, and the znode that it protects: a number, and the token under which it was written.
pub const DIR: &str = "/locks/counter";
pub const COUNTER: &str = "/counter";

/// What a contender believed: that it held the lock, from when to when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub host: u64,
    pub session: i64,
    pub node: String,
    pub token: u64,
    pub from: Duration,
    pub until: Duration,
    /// How it was lost, if it was not released.
    pub lost: Option<LostReason>,
}

/// A client host's program.
pub struct Contender {
    pub site: Site,
    pub host: u64,
    /// When it stops.
    pub until: Duration,
    pub claims: Rc<RefCell<Vec<Claim>>>,
}

impl Contender {
    /// One session after another, as each may be lost.
    pub async fn run(self) -> turmoil::Result {
        let mut rng = self.site.rng(self.host << 32 | u64::from(u32::MAX));
        for nth in 0.. {
            if now() >= self.until {
                break;
            }
            match self.site.connect(self.host, nth).await {
                Ok(zk) => self.live(&zk, &mut rng).await?,
                Err(Error::Unreachable { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes the lock again and again until the session is over, or may be without anybody knowing.
    async fn live(&self, zk: &Client, rng: &mut StdRng) -> turmoil::Result {
        let lock = Lock::new(zk, DIR);
        while now() < self.until {
            match lock.acquire().timeout(2 * TIMEOUT).await {
                Ok(guard) => {
                    if self.hold(zk, guard, rng).await?.is_some() {
                        return Ok(());
                    }
                }
                // A server that has lost its state never answers a client that has seen more.
                Err(LockError::Timeout { .. }) if zk.state() != SessionState::Connected => return Ok(()),
                Err(LockError::Timeout { .. }) => {}
                Err(_) if zk.state().is_final() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        // A partition prevents the close of the session.
        let _ = zk.close().await;
        Ok(())
    }

    /// Counts for a while, then gives the lock back.
    async fn hold(
        &self,
        zk: &Client,
        guard: Guard,
        rng: &mut StdRng,
    ) -> Result<Option<LostReason>, LockError> {
        let from = now();
        let rounds = rng.random_range(1..5);
        let outcome = guard.run(self.count(zk, &guard, rounds, rng)).await;
        let lost = outcome.as_ref().err().copied();
        self.claims.borrow_mut().push(Claim {
            host: self.host,
            session: guard.session_id().0,
            node: guard.node().to_owned(),
            token: guard.token().get(),
            from,
            until: now(),
            lost,
        });
        outcome.unwrap_or(Ok(()))?;
        guard.release().await?;
        sleep(Duration::from_millis(rng.random_range(0..100))).await;
        Ok(lost)
    }

    async fn count(
        &self,
        zk: &Client,
        guard: &Guard,
        rounds: usize,
        rng: &mut StdRng,
    ) -> Result<(), LockError> {
        for _ in 0..rounds {
            sleep(Duration::from_millis(rng.random_range(0..150))).await;
            let outcome = async {
                let count = count_of(zk).await?;
                let data = format!("{} {}", count + 1, guard.token());
                guard.fenced().set_data(COUNTER, data).commit().await
            };
            match outcome.await {
                Ok(_) => {}
                // Whether it was counted is seen next time.
                Err(LockError::Client(error)) if error.is_retryable() => {}
                // The guard reports it soon, too.
                Err(LockError::NotHeld { .. } | LockError::SessionOver { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The count; the znode is made if it is not there.
async fn count_of(zk: &Client) -> Result<u64, Error> {
    match zk.create(COUNTER, "0 0").await {
        Ok(_) => return Ok(0),
        Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
        Err(error) => return Err(error),
    }
    let (data, _) = zk.get_data(COUNTER).await?;
    Ok(parse_counter(&data).0)
}

/// The count and the token of its writer.
pub fn parse_counter(data: &[u8]) -> (u64, u64) {
    let text = std::str::from_utf8(data).unwrap();
    let (count, token) = text.split_once(' ').unwrap();
    (count.parse().unwrap(), token.parse().unwrap())
}
