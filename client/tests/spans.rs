//! Spans of calls. In a process of its own and in one thread: whether a callsite is enabled is decided for the whole process.

#[allow(unused_imports, reason = "the tests in `it` use more of it")]
#[path = "it/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use zoolet_client::{Client, ErrorCode};
use zoolet_proto::{Reply, Stat};

use crate::common::{connected, connected_with};

/// The fields of each span, and whether it is over.
#[derive(Debug, Clone, Default)]
struct Spans(Arc<Mutex<Vec<RecordedSpan>>>);

#[derive(Debug, Clone, Default)]
struct RecordedSpan {
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
    closed: bool,
}

impl Visit for RecordedSpan {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

struct Recorder {
    spans: Spans,
    level: Level,
}

impl Recorder {
    fn change<T>(&self, id: &Id, change: impl FnOnce(&mut RecordedSpan) -> T) -> T {
        change(&mut self.spans.0.lock().expect("not poisoned")[id.into_u64() as usize - 1])
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut recorded = RecordedSpan { name: span.metadata().name(), ..RecordedSpan::default() };
        span.record(&mut recorded);
        let mut spans = self.spans.0.lock().expect("not poisoned");
        spans.push(recorded);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.change(span, |span| values.record(span));
    }

    fn try_close(&self, id: Id) -> bool {
        self.change(&id, |span| span.closed = true);
        true
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn recording(level: Level) -> (Spans, tracing::subscriber::DefaultGuard) {
    let spans = Spans::default();
    let guard = tracing::subscriber::set_default(Recorder { spans: spans.clone(), level });
    (spans, guard)
}

impl Spans {
    /// Those of calls.
    fn calls(&self) -> Vec<RecordedSpan> {
        let spans = self.0.lock().expect("not poisoned");
        spans.iter().filter(|span| span.name == "call").cloned().collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_a_span_if_somebody_listens() {
    without_a_listener_at_debug_there_is_no_span_of_a_call().await;
    each_call_has_a_span_with_the_names_of_opentelemetry_and_without_its_path().await;
    without_a_listener_at_debug_there_is_no_span_of_a_call().await;
}

async fn each_call_has_a_span_with_the_names_of_opentelemetry_and_without_its_path() {
    let (spans, _guard) = recording(Level::DEBUG);
    let (zk, mut peer, _listener) = connected_with(Client::options().chroot("/app")).await;
    let secret = "/a/path";
    let get = zk.get_data(secret).send();
    let multi = zk.multi().create(secret, "data").create("/b", "data").send();
    let exists = zk.exists(secret).send();
    let lost = zk.set_data(secret, "data").send();
    for _ in 0..4 {
        peer.next().await.expect("a request");
    }
    assert!(spans.calls().iter().all(|span| !span.closed), "in flight");
    peer.reply(1, Reply::Data(None, Stat::default())).await;
    get.await.expect("data");
    assert_eq!(spans.calls().iter().map(|span| span.closed).collect::<Vec<_>>(), [true, false, false, false]);
    peer.error(2, ErrorCode::NoAuth).await;
    peer.error(3, ErrorCode::NoNode).await;
    drop(peer);
    assert!(multi.await.is_err() && lost.await.is_err());
    assert_eq!(exists.await.expect("an answer"), None);
    let calls = spans.calls();
    assert!(calls.iter().all(|span| span.closed));
    let names: Vec<_> = calls.iter().map(|span| &*span.fields["otel.name"]).collect();
    assert_eq!(names, ["getData", "BATCH create", "exists", "setData"]);
    for span in &calls {
        assert_eq!(span.fields["db.operation.name"], span.fields["otel.name"]);
        for (field, value) in
            [("otel.kind", "client"), ("db.system.name", "zookeeper"), ("db.namespace", "/app")]
        {
            assert_eq!(span.fields[field], value);
        }
        assert!(span.fields.values().all(|value| !value.contains("path")), "{span:?}");
    }
    assert_eq!(calls[1].fields["db.operation.batch.size"], "2");
    let code = |span: &RecordedSpan| span.fields.get("db.response.status_code").cloned();
    let codes: Vec<_> = calls.iter().map(code).collect();
    assert_eq!(codes, [None, Some("-102".to_owned()), None, Some("-4".to_owned())]);
    for span in &calls {
        assert_eq!(span.fields.get("error.type").cloned(), code(span));
        assert_eq!(span.fields.contains_key("otel.status_code"), code(span).is_some());
    }
}

async fn without_a_listener_at_debug_there_is_no_span_of_a_call() {
    let (spans, _guard) = recording(Level::INFO);
    let (zk, mut peer, _listener) = connected().await;
    let get = zk.get_data("/a").send();
    peer.next().await.expect("a request");
    peer.reply(1, Reply::Data(None, Stat::default())).await;
    get.await.expect("data");
    assert_eq!(spans.calls().len(), 0);
}
