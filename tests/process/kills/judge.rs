//! What must hold for all that the clients saw over all lives of the server.

use std::collections::{HashMap, HashSet};

use zoolet::server::Txn;
use zoolet::testing::{CheckError, Checker, Conn, HistoryEntry, HistoryEvent, Verdict, decided};
use zoolet_proto::{OpCode, SessionId};

/// How much of a history that breaks a rule is shown: the last entries of the connections concerned.
const LINES: usize = 60;

/// What a campaign has shown.
#[derive(Default)]
pub struct Tally {
    pub writes: usize,
    pub reads: usize,
    pub events: usize,
    pub unanswered: usize,
    /// How often a session was resumed.
    pub resumed: usize,
}

/// Judges a history by the transactions on disk.
///
/// # Errors
/// The broken rule, with the end of the history.
pub fn judge(entries: &[HistoryEntry], txns: &[Txn]) -> Result<Tally, String> {
    let resumed = sessions_survive(entries)?;
    let checker = Checker::new().extended_types(true).transactions(decided(txns));
    let verdict = checker.check(entries).map_err(|error| explain(&error, entries))?;
    let Verdict { writes, reads, events, unanswered, .. } = verdict;
    Ok(Tally { writes, reads, events, unanswered, resumed })
}

/// Checks that no session that its client wants to go on with is refused. Clients come back long before a timeout.
fn sessions_survive(entries: &[HistoryEntry]) -> Result<usize, String> {
    let (mut requested, mut session_of): (HashMap<Conn, SessionId>, HashMap<Conn, SessionId>) =
        Default::default();
    let mut closed: HashSet<SessionId> = HashSet::new();
    let mut resumed = 0;
    for entry in entries {
        match &entry.event {
            HistoryEvent::ConnectRequest { session, .. } => drop(requested.insert(entry.conn, *session)),
            HistoryEvent::ConnectResponse { session } => {
                let wanted = requested.get(&entry.conn).copied().unwrap_or_default();
                if *session == SessionId(0) && !closed.contains(&wanted) {
                    return Err(format!(
                        "session {wanted} was refused, although its client did not close it\n{}",
                        tail(entries.iter().filter(|other| other.at <= entry.at))
                    ));
                }
                resumed += usize::from(wanted == *session);
                session_of.insert(entry.conn, *session);
            }
            HistoryEvent::Request(request) if request.op == OpCode::CloseSession.code() => {
                closed.extend(session_of.get(&entry.conn));
            }
            _ => {}
        }
    }
    Ok(resumed)
}

fn explain(error: &CheckError, entries: &[HistoryEntry]) -> String {
    let concerned = |entry: &&HistoryEntry| {
        let CheckError::Violation(violation) = error else { return true };
        let other = violation.other.as_ref().and_then(|other| other.conn);
        [violation.operation.conn, other].contains(&Some(entry.conn))
    };
    format!("{error}\n{}", tail(entries.iter().filter(concerned)))
}

fn tail<'h>(entries: impl Iterator<Item = &'h HistoryEntry>) -> String {
    let lines: Vec<String> = entries.map(|entry| entry.to_string().chars().take(240).collect()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use zoolet_proto::{Incoming, Request, Xid, Zxid};

    /// A client that comes back to session 7, with these entries before.
    fn refused_after(before: Vec<HistoryEvent>) -> Result<usize, String> {
        let back = [
            HistoryEvent::ConnectRequest { session: SessionId(7), last_zxid_seen: Zxid(1) },
            HistoryEvent::ConnectResponse { session: SessionId(0) },
        ];
        let first = before.into_iter().map(|event| (Conn(0), event));
        let all = first.chain(back.into_iter().map(|event| (Conn(1), event))).enumerate();
        let entries: Vec<_> =
            all.map(|(at, (conn, event))| HistoryEntry { at: at as u64, conn, event }).collect();
        sessions_survive(&entries)
    }

    fn opened() -> Vec<HistoryEvent> {
        vec![
            HistoryEvent::ConnectRequest { session: SessionId(0), last_zxid_seen: Zxid(0) },
            HistoryEvent::ConnectResponse { session: SessionId(7) },
        ]
    }

    #[test]
    fn a_session_that_is_refused_is_lost_unless_its_client_closed_it() {
        let lost = refused_after(opened()).expect_err("it is lost");
        assert!(lost.contains("was refused"), "{lost}");
        let op = OpCode::CloseSession.code();
        let close = HistoryEvent::Request(Incoming { xid: Xid(1), op, body: Ok(Request::CloseSession) });
        assert_eq!(refused_after([opened(), vec![close]].concat()), Ok(0));
    }
}
