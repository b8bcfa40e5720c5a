//! `bench`: how fast a server answers.
//!
//! Everything it does is below one znode of its own: a container with ephemerals, in a session of its own. So what an interrupted
//! bench leaves goes by itself: the ephemerals with the session, and the container a minute later.

use std::collections::VecDeque;
use std::future::IntoFuture as _;
use std::ops::Range;
use std::pin::Pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use zoolet_client::{Client, Error, ErrorCode, ReplyFuture, path};

use crate::failure::{ExitReason, ShellResult};
use crate::shell::{OtherServers, Shell};
use crate::text::shown;

/// Most data that is on the server at once.
const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Of this many requests, one is sent alone, to measure its latency.
const ALONE: u32 = 10;

/// The arguments of `bench`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It creates, sets, reads and deletes ephemerals below a znode of its own, which is gone in the end. First it sends a \
    tenth of the requests one at a time, for the latency, and then the others together.\n\
    Example: zoolet bench --requests 100000 --size 1000"
)]
pub struct BenchArguments {
    /// The znode below which it makes its own
    #[arg(default_value = ".", hide_default_value = true)]
    path: String,
    /// Requests of each kind, and znodes
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    requests: u32,
    /// Bytes of data in each znode
    #[arg(long, value_name = "BYTES", default_value = "100", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    size: u32,
    /// Requests that wait for an answer at the same time
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = clap::value_parser!(u16).range(1..=1024))]
    in_flight: u16,
}

/// Sends a request now.
type SendRequest = fn(&Client, String, &Bytes) -> BenchReply;

/// The kinds of requests by their names, in the order in which they are measured.
const KINDS: [(&str, SendRequest); 4] = [
    ("create", |client, path, data| done(client.create(path, data.clone()).ephemeral().into_future())),
    ("set", |client, path, data| done(client.set_data(path, data.clone()).into_future())),
    ("get", |client, path, _| done(client.get_data(path).into_future())),
    ("delete", |client, path, _| done(client.delete(path).into_future())),
];

/// What was measured of a kind of request.
#[derive(Debug)]
struct Measured {
    /// Of requests that were sent alone, the shortest first.
    latencies: Vec<Duration>,
    /// How many were sent together, and in which time.
    together: (u32, Duration),
}

impl BenchArguments {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        if u64::from(self.requests) * u64::from(self.size) > MAX_BYTES {
            let message = "more than 256 MiB of data: take fewer --requests or a smaller --size";
            return Err(shell.fail(ExitReason::Usage, message));
        }
        let other = shell.open_other(OtherServers::Same).await?;
        let client = &other.client;
        let name = format!("zoolet-bench-{:x}", client.session_id().0);
        let root = path::join(&shell.path(&self.path), &name);
        let created = client.create(&root, "").container().await;
        let hint = "name a znode that exists, below which it makes its own";
        shell.answered_unless(created, ErrorCode::NoNode, hint)?;
        if !shell.json {
            let Self { requests, size, in_flight, .. } = self;
            shell.line(format!(
                "{requests} requests of each kind below {}, {size} bytes of data",
                shown(&root)
            ))?;
            shell.line(format!(
                "        latency of one alone, ms      {in_flight:>4} in flight,\n\
                 {:8}{:>8}{:>10}{:>10}  requests a second",
                "", "median", "99 %", "max"
            ))?;
        }
        let outcome = self.measure_all(shell, client, &root).await;
        // After a failure too. What this cannot remove goes with the session.
        let removed = client.delete_recursive(&root).await;
        outcome?;
        shell.answered(removed)
    }

    async fn measure_all(&self, shell: &mut Shell<'_>, client: &Client, root: &str) -> ShellResult {
        for (name, send) in KINDS {
            let measured = shell.answered(self.measure(client, root, send).await)?;
            self.print(shell, name, &measured)?;
            shell.flush()?;
        }
        Ok(())
    }

    /// One request for each znode.
    async fn measure(&self, client: &Client, root: &str, send: SendRequest) -> Result<Measured, Error> {
        let data = Bytes::from(vec![b'x'; self.size as usize]);
        let send = |at| send(client, format!("{root}/{at}"), &data);
        let alone = self.requests / ALONE;
        let mut latencies = Vec::new();
        for at in 0..alone {
            let sent = Instant::now();
            send(at).await?;
            latencies.push(sent.elapsed());
        }
        latencies.sort_unstable();
        let begun = Instant::now();
        send_together(alone..self.requests, self.in_flight.into(), send).await?;
        Ok(Measured { latencies, together: (self.requests - alone, begun.elapsed()) })
    }

    fn print(&self, shell: &mut Shell<'_>, name: &str, measured: &Measured) -> ShellResult {
        let [median, nearly_all, max] = [50, 99, 100].map(|percent| measured.latency(percent));
        let rate = measured.rate();
        match shell.json {
            true => shell.json_line(&json!({
                "operation": name, "requests": self.requests, "dataLength": self.size,
                "latencyMs": {"p50": median, "p99": nearly_all, "max": max},
                "inFlight": self.in_flight, "requestsPerSecond": rate,
            })),
            false => shell.line(format!("{name:8}{median:>8.3}{nearly_all:>10.3}{max:>10.3}{rate:>19.0}")),
        }
    }
}

/// The reply to a request of any kind.
type BenchReply = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

fn done<T: 'static>(reply: ReplyFuture<T>) -> BenchReply {
    Box::pin(async { reply.await.map(drop) })
}

/// Sends requests, with a bound on those that wait for an answer.
async fn send_together(
    all: Range<u32>,
    in_flight: usize,
    send: impl Fn(u32) -> BenchReply,
) -> Result<(), Error> {
    let mut sent = VecDeque::new();
    for at in all {
        if sent.len() >= in_flight {
            if let Some(reply) = sent.pop_front() {
                reply.await?;
            }
        }
        sent.push_back(send(at));
    }
    for reply in sent {
        reply.await?;
    }
    Ok(())
}

impl Measured {
    /// The latency in milliseconds that this part of the requests does not exceed.
    fn latency(&self, percent: usize) -> f64 {
        let at = (self.latencies.len() * percent).div_ceil(100).saturating_sub(1);
        self.latencies.get(at).map_or(0.0, |latency| (latency.as_secs_f64() * 1e6).round() / 1e3)
    }

    /// Requests a second.
    fn rate(&self) -> f64 {
        let (requests, time) = self.together;
        (f64::from(requests) / time.as_secs_f64().max(1e-9)).round()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_part_of_the_latencies_is_not_above_a_percentile() {
        let latencies = (1..=200).map(Duration::from_millis).collect();
        let measured = Measured { latencies, together: (500, Duration::from_millis(250)) };
        assert_eq!([50, 99, 100].map(|percent| measured.latency(percent)), [100.0, 198.0, 200.0]);
        assert_eq!(measured.rate(), 2000.0);
    }
    #[tokio::test]
    async fn no_more_requests_wait_for_an_answer_than_allowed() {
        let waiting = Rc::new(Cell::new((0, 0)));
        let send = |_| -> BenchReply {
            let (now, most) = waiting.get();
            waiting.set((now + 1, most.max(now + 1)));
            let waiting = Rc::clone(&waiting);
            Box::pin(async move {
                let (now, most) = waiting.get();
                waiting.set((now - 1, most));
                Ok(())
            })
        };
        send_together(0..100, 7, send).await.unwrap();
        assert_eq!(waiting.get(), (0, 7));
    }
}
