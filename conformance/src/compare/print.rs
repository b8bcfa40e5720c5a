//! Prints a difference as a case of the catalogue.

use std::collections::{BTreeMap, BTreeSet};

use super::generate::{Move, What};
use super::side::{Observed, Seen};
use super::{Difference, Differing};
use crate::catalogue::case::Setting;
use crate::catalogue::run::QUOTA_GROUP;
use crate::wire::fields::{Fields, QUOTAS, Value, field, show};

/// A letter that no generated session has.
const INTRUDER: char = 'X';

/// How many lines are shown of what does not come again.
const LAST: usize = 30;

/// What the reference does, as a case, which the candidate fails.
pub(super) fn difference(
    seed: u64,
    settings: &[Setting],
    differing: &Differing,
    repeats: bool,
) -> Difference {
    let names_quotas = |step: &Move| match &step.what {
        What::Ask { requests, .. } => requests.iter().any(|(text, _)| text.contains(QUOTAS)),
        _ => false,
    };
    // Only cases of that group have a place for quotas.
    let group = if differing.moves.iter().any(names_quotas) { QUOTA_GROUP } else { "fuzz" };
    let mut case = format!("case {group}/seed-{seed}\nfact What the reference does\n");
    if !settings.is_empty() {
        let settings: Vec<_> = settings.iter().map(ToString::to_string).collect();
        case.push_str(&format!("with {}\n", settings.join(" ")));
    }
    let mut printer = Printer { case, known: BTreeSet::new(), sessions: BTreeMap::new(), last: 0 };
    let last = differing.moves.len() - 1;
    for (at, (step, observed)) in differing.moves.iter().zip(&differing.reference).enumerate() {
        printer.step(step, observed, at == last);
    }
    let (reference, candidate) = (&differing.reference[last], &differing.candidate);
    for observed in reference {
        // Nothing else has come on this connection, but something has from the candidate.
        let of = |all: &[Observed]| all.iter().filter(|other| other.session == observed.session).count();
        if matches!(observed.seen, Seen::Pong(_)) && of(reference) < of(candidate) {
            printer.line(observed.session, "quiet");
        }
    }
    if !repeats {
        let lines: Vec<_> = printer.case.lines().collect();
        let left_out = lines.len().saturating_sub(LAST);
        printer.case = format!("# The last of {} lines.\n{}\n", lines.len(), lines[left_out..].join("\n"));
    }
    let lines = |all: &[Observed]| {
        all.iter().map(|observed| format!("{} {}", observed.session, observed.seen.text())).collect()
    };
    Difference { case: printer.case, reference: lines(reference), candidate: lines(candidate), repeats }
}

struct Printer {
    case: String,
    /// The names of values so far.
    known: BTreeSet<String>,
    /// The name of the session of each connection.
    sessions: BTreeMap<char, String>,
    /// The largest zxid so far.
    last: i64,
}

impl Printer {
    fn line(&mut self, session: char, text: &str) {
        self.case.push_str(&format!("{session} {text}\n"));
    }

    fn step(&mut self, step: &Move, observed: &[Observed], is_last: bool) {
        let mut frames = observed.iter().peekable();
        let own = self.sessions.get(&step.session).cloned().unwrap_or_default();
        match &step.what {
            What::Ask { requests, since } => {
                // A session that was not there is opened first.
                if let Some(Observed { session, seen: Seen::Opened(fields) }) = frames.peek() {
                    self.opened(*session, fields, is_last);
                    frames.next();
                }
                let since = self.since(*since);
                let texts: Vec<_> = requests.iter().map(|(text, _)| text.replace("$since", &since)).collect();
                match (&texts[..], frames.peek()) {
                    ([text], Some(Observed { seen: Seen::Reply(fields), .. })) => {
                        let expected = self.expected(fields, is_last);
                        self.line(step.session, &format!("{text} -> {expected}"));
                        frames.next();
                    }
                    _ => texts.iter().for_each(|text| self.line(step.session, &format!("send {text}"))),
                }
            }
            What::Resume => self.line(step.session, "drop"),
            What::Move => {}
            What::Intrude => {
                frames.next();
                let wrong = "\\x07".repeat(16);
                self.line(INTRUDER, &format!("open session={own} password=\"{wrong}\" -> refused"));
            }
            What::Ahead => {
                let password = own.replace("$s", "$p");
                let result = match frames.next() {
                    Some(Observed { seen: Seen::Opened(_), .. }) => "ok",
                    _ => "ended",
                };
                let handshake = format!("open session={own} password={password} lastZxid={}", i64::MAX);
                self.line(INTRUDER, &format!("{handshake} -> {result}"));
            }
        }
        for Observed { session, seen } in frames {
            match seen {
                Seen::Opened(fields) => self.opened(*session, fields, is_last),
                Seen::Reply(fields) => {
                    let expected = self.expected(fields, is_last);
                    self.line(*session, &format!("reply {expected}"));
                }
                Seen::Event(fields) => {
                    let shown = |name| field(fields, name).map_or_else(String::new, Value::to_string);
                    self.line(*session, &format!("event {} {}", shown("result"), shown("path")));
                }
                Seen::Pong(fields) => self.note(fields),
                Seen::Over(_) if matches!(step.what, What::Move) => {}
                Seen::Over(_) => self.line(*session, "ended"),
            }
        }
    }

    fn opened(&mut self, session: char, fields: &Fields, is_last: bool) {
        let name = field(fields, "session").map(Value::to_string);
        let Some(name) = name.filter(|name| name.starts_with('$')) else {
            let expected = self.expected(fields, is_last);
            return self.line(session, &format!("open -> {expected}"));
        };
        let password = name.replace("$s", "$p");
        if self.known.insert(name.clone()) {
            self.line(session, &format!("open -> ok session={name} password={password}"));
        } else {
            self.line(session, &format!("open session={name} password={password}"));
        }
        self.sessions.insert(session, name);
    }

    /// What a reply is to be. In the last step that is all that the case language can say of it; before it, the results and
    /// the zxid.
    fn expected(&mut self, fields: &Fields, is_last: bool) -> String {
        self.note(fields);
        let is_needed = |name: &str| is_last || matches!(name, "result" | "zxid" | "results");
        let mut said: Fields = fields.iter().filter(|(name, _)| is_needed(name)).cloned().collect();
        without_unsayable(&mut said, is_last);
        show(&said)
    }

    /// Remembers the zxids of a frame.
    fn note(&mut self, fields: &Fields) {
        for (_, value) in fields {
            match value {
                Value::Text(text) => {
                    if let Some(zxid) = text.strip_prefix("$z").and_then(|zxid| zxid.parse().ok()) {
                        self.last = self.last.max(zxid);
                        self.known.insert(text.clone());
                    }
                }
                Value::Results(results) => results.iter().for_each(|result| self.note(result)),
                _ => {}
            }
        }
    }

    /// The name of the zxid of `back` transactions ago, or of the next one before it that has a name.
    fn since(&self, back: i64) -> String {
        let named = (1..=self.last - back).rev().map(|zxid| format!("$z{zxid}"));
        named.into_iter().find(|name| self.known.contains(name)).unwrap_or_else(|| "0".to_owned())
    }
}

/// Leaves out times and what is older than the case.
fn without_unsayable(fields: &mut Fields, is_last: bool) {
    fields.retain(|(name, value)| {
        let is_time = matches!(*name, "ctime" | "mtime" | "password");
        !is_time && *value != Value::Text("$older".to_owned())
    });
    for (_, value) in fields {
        if let Value::Results(results) = value {
            for result in results {
                result.retain(|(name, _)| is_last || *name == "result");
                without_unsayable(result, is_last);
            }
        }
    }
}
