//! What a client counts: [`ClientMetrics`], read from [`SessionCounters`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use zoolet_proto::{ErrorCode, OpCode};

/// The counters of a session since it was opened, from [`Client::metrics`](crate::Client::metrics).
///
/// With the feature `facade` the same numbers of all clients of the process go to the recorder of the crate `metrics`, under the
/// names below, and the time of each reply as the histogram `db.client.operation.duration` in seconds, with the labels
/// `db.operation.name` and, if it was refused, `error.type`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientMetrics {
    /// Connections on which a server has confirmed the session. `zoolet.client.connections`
    pub connections: u64,
    /// Of these, how many were lost. `zoolet.client.connections.lost`
    pub connections_lost: u64,
    /// Attempts at a connection that have failed. `zoolet.client.connections.failed`
    pub attempts_failed: u64,
    /// Requests sent, pings not included. One that is sent again on another connection counts again.
    pub requests: u64,
    /// Replies to them.
    pub replies: u64,
    /// Of these, how many were errors, such as `NoNode`.
    pub refusals: u64,
    /// Calls in flight that have failed with their connection. `zoolet.client.calls.lost`
    pub calls_lost: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// The times from the sending of a request to its reply, added up.
    pub reply_time: Duration,
    /// Events of watches. `zoolet.client.events`
    pub events: u64,
    /// Pings sent.
    pub pings: u64,
    /// Bytes of requests, pings and handshakes not included.
    pub bytes_sent: u64,
    /// Bytes of all frames received.
    pub bytes_received: u64,
}

/// A counter that one task writes, and others read. So it needs no atomic addition.
#[derive(Debug, Default)]
pub(crate) struct DriverCounter(AtomicU64);

impl DriverCounter {
    pub(crate) fn add(&self, number: u64) {
        self.set(self.get().wrapping_add(number));
    }

    pub(crate) fn set(&self, number: u64) {
        self.0.store(number, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Written by the driver alone.
#[derive(Debug, Default)]
pub(crate) struct SessionCounters {
    pub(crate) connections: DriverCounter,
    pub(crate) connections_lost: DriverCounter,
    pub(crate) attempts_failed: DriverCounter,
    pub(crate) requests: DriverCounter,
    pub(crate) replies: DriverCounter,
    pub(crate) refusals: DriverCounter,
    pub(crate) calls_lost: DriverCounter,
    pub(crate) in_flight: DriverCounter,
    pub(crate) reply_nanos: DriverCounter,
    pub(crate) events: DriverCounter,
    pub(crate) pings: DriverCounter,
    pub(crate) bytes_sent: DriverCounter,
    pub(crate) bytes_received: DriverCounter,
}

impl SessionCounters {
    pub(crate) fn read(&self) -> ClientMetrics {
        ClientMetrics {
            connections: self.connections.get(),
            connections_lost: self.connections_lost.get(),
            attempts_failed: self.attempts_failed.get(),
            requests: self.requests.get(),
            replies: self.replies.get(),
            refusals: self.refusals.get(),
            calls_lost: self.calls_lost.get(),
            in_flight: self.in_flight.get(),
            reply_time: Duration::from_nanos(self.reply_nanos.get()),
            events: self.events.get(),
            pings: self.pings.get(),
            bytes_sent: self.bytes_sent.get(),
            bytes_received: self.bytes_received.get(),
        }
    }

    /// A session is attached to a connection.
    pub(crate) fn connected(&self) {
        self.connections.add(1);
        count("zoolet.client.connections");
    }

    /// A connection was lost, or an attempt at one has failed.
    pub(crate) fn failed(&self, was_connected: bool) {
        if was_connected {
            self.connections_lost.add(1);
            count("zoolet.client.connections.lost");
        } else {
            self.attempts_failed.add(1);
            count("zoolet.client.connections.failed");
        }
    }

    /// A call has failed with its connection.
    pub(crate) fn call_lost(&self) {
        self.calls_lost.add(1);
        count("zoolet.client.calls.lost");
    }

    /// An event has arrived.
    pub(crate) fn event(&self) {
        self.events.add(1);
        count("zoolet.client.events");
    }

    /// A reply to a request of this kind has arrived after `took`.
    #[inline]
    pub(crate) fn reply(&self, op: OpCode, error: Option<ErrorCode>, took: Duration) {
        self.replies.add(1);
        self.refusals.add(u64::from(error.is_some()));
        self.reply_nanos.add(took.as_nanos() as u64);
        observe(op, error, took);
    }
}

#[cfg(feature = "facade")]
fn count(name: &'static str) {
    metrics::counter!(name).increment(1);
}

#[cfg(not(feature = "facade"))]
fn count(_: &'static str) {}

#[cfg(feature = "facade")]
fn observe(op: OpCode, error: Option<ErrorCode>, took: Duration) {
    const DURATION: &str = "db.client.operation.duration";
    let name = crate::context::name(op);
    match error {
        None => metrics::histogram!(DURATION, "db.operation.name" => name),
        Some(error) => {
            metrics::histogram!(DURATION, "db.operation.name" => name, "error.type" => error.code().to_string())
        }
    }
    .record(took.as_secs_f64());
}

#[cfg(not(feature = "facade"))]
#[inline]
fn observe(_: OpCode, _: Option<ErrorCode>, _: Duration) {}

#[cfg(all(test, feature = "facade"))]
mod tests {
    use std::sync::{Arc, Mutex};

    use metrics::{
        CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };

    use super::*;

    /// What was recorded, as text.
    #[derive(Debug, Clone, Default)]
    struct Recorded(Arc<Mutex<Vec<String>>>);

    struct Named(Recorded, String);

    impl Named {
        fn note(&self, value: impl std::fmt::Display) {
            self.0.0.lock().expect("not poisoned").push(format!("{} {value}", self.1));
        }
    }

    impl CounterFn for Named {
        fn increment(&self, value: u64) {
            self.note(value);
        }
        fn absolute(&self, _: u64) {}
    }

    impl HistogramFn for Named {
        fn record(&self, value: f64) {
            self.note(value);
        }
    }

    impl Recorded {
        fn named(&self, key: &Key) -> Arc<Named> {
            let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
            Arc::new(Named(self.clone(), format!("{}{}", key.name(), labels.collect::<String>())))
        }
    }

    impl Recorder for Recorded {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
            metrics::Counter::from_arc(self.named(key))
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(self.named(key))
        }
    }

    #[test]
    fn the_facade_gets_the_time_of_each_reply_and_the_counters() {
        let (recorded, counters) = (Recorded::default(), SessionCounters::default());
        metrics::with_local_recorder(&recorded, || {
            counters.connected();
            counters.reply(OpCode::GetChildren2, None, Duration::from_millis(250));
            counters.reply(OpCode::Create2, Some(ErrorCode::NodeExists), Duration::from_millis(500));
            counters.failed(true);
        });
        let recorded = recorded.0.lock().expect("not poisoned").clone();
        let expected = [
            "zoolet.client.connections 1",
            "db.client.operation.duration db.operation.name=getChildren 0.25",
            "db.client.operation.duration db.operation.name=create error.type=-110 0.5",
            "zoolet.client.connections.lost 1",
        ];
        assert_eq!(recorded, expected);
    }
}
