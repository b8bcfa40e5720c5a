//! [`Plan`]: what a replay does, in the order in which the server did it.

use std::collections::HashMap;
use std::time::Duration;

use super::order::{Order, StepKey, UpperBounds};
use super::reading::{CapturedConnection, Draft, Reading};
use super::step::{Action, Awaited, Moment, Step};
use super::timeline::Sighting;
use crate::capture::format::{OBSERVER, Records};
use crate::error::CaptureError;
use crate::history::Side;

/// What a replay does.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) connections: HashMap<u32, CapturedConnection>,
    /// The zxid of the captured server when the capture began.
    pub(super) base: i64,
    pub(super) pings: usize,
    /// How long the capture took.
    pub(super) duration: Duration,
    pub(super) warning: Option<String>,
}

impl Plan {
    /// Reads a capture.
    pub(super) fn read(mut records: Records) -> Result<Self, CaptureError> {
        let mut reading = Reading::default();
        while let Some(record) = records.next()? {
            reading.add(record);
        }
        Ok(Self { warning: records.warning(), ..Self::of(reading) })
    }

    /// The steps of clients by the zxids of their replies, and between them what the server did by itself.
    fn of(mut reading: Reading) -> Self {
        complete(&mut reading);
        let Reading { mut drafts, connections, timeline, expiries, deletions, changed, .. } = reading;
        let bounds = UpperBounds::of(&drafts);
        let base = bounds.base(&drafts, reading.base.unwrap_or(0));
        drafts.iter_mut().for_each(|draft| draft.seen = draft.seen.max(base));
        let mut order = Order::of(&drafts, &changed, bounds);
        let mut steps = Steps { placed: Vec::new() };
        steps.place(drafts, &mut order);

        // A transaction that no request explains is a deletion if the observer saw one, or else an expiry if a session was due.
        // Only now are all known that requests explain: placing them has added some.
        let mut explained = order.known.clone();
        for (zxid, deleted) in deletions.range(base + 1..) {
            // A timer of the server deletes one znode in a transaction; the end of a session deletes as many as it has.
            let is_by_timer = !order.known.contains(zxid) && !expiries.is_of_ephemeral(*zxid);
            if !is_by_timer {
                continue;
            }
            if let [(sighting, path)] = &deleted[..] {
                explained.insert(*zxid);
                steps.by_server(*sighting, Action::Delete { path: path.clone() });
            }
        }
        for (sighting, session) in expiries.find(&timeline, base, &explained) {
            explained.insert(sighting.zxid);
            steps.end_after(sighting, |connection| {
                connections.get(&connection).is_some_and(|connection| connection.session == Some(session))
            });
            steps.by_server(sighting, Action::Expire { session });
        }
        // The rest deleted nothing, if there was an observer to see it and the server names zxids in events, which is certain only
        // if it saw other deletions. Writes of others are not repeated.
        if !deletions.is_empty() {
            let left = timeline.unexplained(base, &explained);
            left.into_iter().for_each(|sighting| steps.by_server(sighting, Action::Refuse));
        }

        let (pings, duration) = (reading.pings, reading.duration);
        Self { steps: steps.sorted(), connections, base, pings, duration, warning: None }
    }
}

/// Completes the drafts by what was known only at the end of the capture.
fn complete(reading: &mut Reading) {
    for draft in &mut reading.drafts {
        let connection = reading.connections.get(&draft.moment.connection);
        let ended = connection.and_then(|connection| connection.ended);
        draft.done = draft.done.or(ended.map(|(_, at)| at));
        if let Action::Request { reply: reply @ Awaited::Lost, .. } = &mut draft.action {
            if let Some((Side::Server, _)) = ended {
                *reply = Awaited::Nothing;
            }
        }
    }
}

/// Steps with their places.
struct Steps {
    placed: Vec<(StepKey, Step)>,
}

impl Steps {
    /// Places the steps of clients. Those of one connection stay in their order.
    fn place(&mut self, drafts: Vec<Draft>, order: &mut Order) {
        let mut last: HashMap<u32, StepKey> = HashMap::new();
        for draft in drafts {
            let Some(key) = order.place(&draft) else { continue };
            let last = last.entry(draft.moment.connection).or_default();
            *last = key.max(*last);
            let Draft { moment, action, .. } = draft;
            self.placed.push((*last, Step { moment, action, after: key.reached() }));
        }
    }

    /// Adds a transaction of the server itself.
    fn by_server(&mut self, Sighting { zxid, time, at }: Sighting, action: Action) {
        let moment = Moment { time, connection: OBSERVER, at };
        let key = StepKey::transaction(zxid, at);
        self.placed.push((key, Step { moment, action, after: key.reached() }));
    }

    /// Moves the end of these connections after the transaction, which caused it, even if it was recorded before anything shows the
    /// transaction: in the replay the server ends them only when [`Action::Expire`] is made.
    fn end_after(&mut self, Sighting { zxid, at, .. }: Sighting, is_meant: impl Fn(u32) -> bool) {
        for (key, step) in &mut self.placed {
            if matches!(step.action, Action::Ended) && is_meant(step.moment.connection) {
                *key = StepKey::after(zxid, at).max(*key);
            }
        }
    }

    fn sorted(mut self) -> Vec<Step> {
        self.placed.sort_by_key(|(key, _)| *key);
        self.placed.into_iter().map(|(_, step)| step).collect()
    }
}

#[cfg(test)]
mod tests;
