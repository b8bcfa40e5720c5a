//! Checks, waiting, and the proxy's control port.

use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

pub const LIMIT: Duration = Duration::from_secs(10);
static FAILED: AtomicUsize = AtomicUsize::new(0);

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// One check: an error, or taking too long, makes it fail, and the script goes on.
pub async fn check(what: &str, body: impl Future<Output = Outcome>) {
    match tokio::time::timeout(3 * LIMIT, body).await.unwrap_or_else(|_| Err("it takes too long".into())) {
        Ok(()) => println!("ok {what}"),
        Err(error) => {
            FAILED.fetch_add(1, Ordering::Relaxed);
            println!("not ok {what}: {error}");
        }
    }
}

pub fn any_failed() -> bool {
    FAILED.load(Ordering::Relaxed) > 0
}

pub fn hold(what: &str, condition: bool) -> Outcome {
    if condition { Ok(()) } else { Err(format!("not so: {what}").into()) }
}

pub fn equal<T: PartialEq + Debug>(got: T, expected: T) -> Outcome {
    if got == expected { Ok(()) } else { Err(format!("got {got:?}, expected {expected:?}").into()) }
}

/// The result has to be this error.
pub fn refused<T: Debug, E: PartialEq + Debug>(result: Result<T, E>, expected: E) -> Outcome {
    match result {
        Err(error) if error == expected => Ok(()),
        other => Err(format!("got {other:?}, expected {expected:?}").into()),
    }
}

pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> Outcome<T> {
    tokio::time::timeout(LIMIT, future).await.map_err(|_| format!("did not happen in time: {what}").into())
}

pub async fn eventually<F: Future<Output = Outcome<bool>>>(what: &str, mut condition: impl FnMut() -> F) -> Outcome {
    let deadline = Instant::now() + LIMIT;
    while !condition().await? {
        hold(what, Instant::now() < deadline)?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Has the proxy obey a command.
pub async fn control(command: &str) -> Outcome {
    let mut stream = BufReader::new(TcpStream::connect(env("ZK_CONTROL")).await?);
    stream.write_all(format!("{command}\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    hold("the proxy obeys", answer.starts_with("ok"))
}

pub fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}
