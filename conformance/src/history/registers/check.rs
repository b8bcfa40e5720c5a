//! Compares a history with the rules of ZooKeeper, in one pass over its sorted operations.
//!
//! Nothing is searched for: the zxids in the replies tell the order of the writes, and what is left is to see that this is the order
//! that clients saw.

use std::collections::{BTreeMap, HashMap, HashSet};

use thiserror::Error;

use super::{Asked, Got, Operation, State};

/// A rule that is broken, and the operations that show it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{rule}\n  {}", .operations.join("\n  "))]
pub struct Violation {
    /// The rule, in a sentence.
    pub rule: &'static str,
    /// The operations, oldest first.
    pub operations: Vec<String>,
}

const STALE: &str =
    "A stale read: it shows a register as it was before an operation that had ended when it began";
const LATE_WRITE: &str = "A write came before one that had ended when it began";
const TWO_VALUES: &str = "A register had two values at the same zxid";
const LOST: &str = "A lost write: a later state of the register has no higher version";
const INVENTED: &str = "A value that nobody has written";
const GAP: &str = "More versions than writes: a register was written by nobody";
const WRONG_VERSION: &str = "A write for one version was done at another";
const MISSING: &str = "A lost create: it had ended, nobody has deleted it, and it is not there";
const LEFT: &str = "A lost delete: a list has what was deleted before it began";
const UNKNOWN_NAME: &str = "A list has what nobody has created";

fn broken(rule: &'static str, operations: &[&Operation]) -> Violation {
    let mut operations = operations.to_vec();
    operations.sort_by_key(|operation| operation.began);
    Violation { rule, operations: operations.iter().map(|operation| operation.to_string()).collect() }
}

/// The first rule that the history breaks. In an ensemble, reads are up to date only after a sync, or for what the same session has
/// seen.
pub(super) fn check(operations: &[Operation], is_ensemble: bool) -> Option<Violation> {
    registers(operations)
        .and_then(|()| order(operations, is_ensemble))
        .and_then(|()| lists(operations, is_ensemble))
        .err()
}

type Checked = Result<(), Violation>;

/// Each register has one value at a zxid, its versions count its writes, and none is written by nobody.
fn registers(operations: &[Operation]) -> Checked {
    let mut writes: HashMap<(usize, &str), &Operation> = HashMap::new();
    let mut states: BTreeMap<(usize, i64), (&State, &Operation)> = BTreeMap::new();
    for operation in operations {
        if let Asked::Set { register, value, .. } = &operation.asked {
            writes.insert((*register, value), operation);
        }
    }
    for operation in operations {
        let (Some(register), Some(Got::State(state))) = (register(operation), &operation.got) else {
            continue;
        };
        let is_write = writes.get(&(register, &state.value));
        if !state.value.is_empty() && is_write.is_none() {
            return Err(broken(INVENTED, &[operation]));
        }
        if let Asked::Set { version, .. } = operation.asked {
            if version >= 0 && state.version != version + 1 {
                return Err(broken(WRONG_VERSION, &[operation]));
            }
        }
        let (known, by) = states.entry((register, state.mzxid)).or_insert((state, operation));
        if *known != state {
            return Err(broken(TWO_VALUES, &[by, operation]));
        }
    }
    // Writes without an answer, which may explain versions that nobody saw.
    let mut unseen: HashMap<usize, i32> = HashMap::new();
    let seen: HashSet<_> =
        states.iter().map(|((register, _), (state, _))| (*register, state.value.as_str())).collect();
    for (write, operation) in &writes {
        if operation.got.is_none() && !seen.contains(write) {
            *unseen.entry(write.0).or_default() += 1;
        }
    }
    for (((register, _), (state, by)), ((next, _), (later, after))) in
        states.iter().zip(states.iter().skip(1))
    {
        if register != next {
            continue;
        }
        if later.version <= state.version {
            return Err(broken(LOST, &[by, after]));
        }
        let left = unseen.entry(*register).or_default();
        *left -= later.version - state.version - 1;
        if *left < 0 {
            return Err(broken(GAP, &[by, after]));
        }
    }
    Ok(())
}

/// What has ended before an operation began is not later than what it shows.
fn order(operations: &[Operation], is_ensemble: bool) -> Checked {
    // The newest state of each register that an ended operation has shown: to anybody, by a write, and to a session.
    let mut shown: HashMap<usize, &Operation> = HashMap::new();
    let mut written: HashMap<usize, &Operation> = HashMap::new();
    let mut own: HashMap<(usize, usize, usize), &Operation> = HashMap::new();
    let mut floors: HashMap<u64, &Operation> = HashMap::new();
    for (is_end, operation) in by_time(operations) {
        let Some(register) = register(operation) else { continue };
        let owned = (operation.client, operation.session, register);
        let is_write = matches!(operation.asked, Asked::Set { .. });
        if !is_end {
            let global = match &operation.asked {
                _ if !is_ensemble => shown.get(&register),
                Asked::Set { .. } | Asked::Get { synced: true, .. } => written.get(&register),
                _ => None,
            };
            let floor =
                [global, own.get(&owned)].into_iter().flatten().max_by_key(|operation| mzxid(operation));
            if let Some(floor) = floor {
                floors.insert(operation.began, floor);
            }
            continue;
        }
        let Some(at) = mzxid(operation) else { continue };
        if let Some(floor) = floors.remove(&operation.began) {
            let least = mzxid(floor).unwrap_or_default();
            if at < least {
                return Err(broken(if is_write { LATE_WRITE } else { STALE }, &[floor, operation]));
            }
            if is_write && at == least {
                return Err(broken(TWO_VALUES, &[floor, operation]));
            }
        }
        let newer = |known: Option<&&Operation>| known.and_then(|known| mzxid(known)) < Some(at);
        if newer(shown.get(&register)) {
            shown.insert(register, operation);
        }
        if newer(own.get(&owned)) {
            own.insert(owned, operation);
        }
        if is_write && newer(written.get(&register)) {
            written.insert(register, operation);
        }
    }
    Ok(())
}

/// Lists have what was created and not deleted.
fn lists(operations: &[Operation], is_ensemble: bool) -> Checked {
    #[derive(Default)]
    struct Life<'o> {
        create: Option<&'o Operation>,
        delete: Option<&'o Operation>,
    }
    let mut lives: HashMap<&str, Life<'_>> = HashMap::new();
    for operation in operations {
        match &operation.asked {
            Asked::Create { name } => lives.entry(name).or_default().create = Some(operation),
            Asked::Delete { name } => lives.entry(name).or_default().delete = Some(operation),
            _ => {}
        }
    }
    // Names that a list must have: created, and their deletion has not begun.
    let mut there: HashSet<&str> = HashSet::new();
    let mut musts: HashMap<u64, HashSet<&str>> = HashMap::new();
    for (is_end, operation) in by_time(operations) {
        let is_done = operation.got == Some(Got::Done);
        match (&operation.asked, &operation.got) {
            (Asked::Create { name }, _) if is_end && is_done => _ = there.insert(name),
            (Asked::Delete { name }, _) if !is_end => {
                there.remove(name.as_str());
                musts.values_mut().for_each(|must| _ = must.remove(name.as_str()));
            }
            (Asked::Delete { name }, Some(Got::Refused)) => {
                let create = lives[name.as_str()].create.unwrap_or(operation);
                return Err(broken(MISSING, &[create, operation]));
            }
            (Asked::List { .. }, _) if !is_end => _ = musts.insert(operation.began, there.clone()),
            (Asked::List { synced }, Some(Got::Names(names))) => {
                let sees = |other: &Operation| {
                    !is_ensemble
                        || *synced
                        || (other.client, other.session) == (operation.client, operation.session)
                };
                let listed: HashSet<_> = names.iter().map(String::as_str).collect();
                for name in musts.remove(&operation.began).unwrap_or_default() {
                    match lives[name].create.filter(|create| sees(create)) {
                        Some(create) if !listed.contains(name) => {
                            return Err(broken(MISSING, &[create, operation]));
                        }
                        _ => {}
                    }
                }
                for name in listed {
                    let Some(Life { create: Some(create), delete }) = lives.get(name) else {
                        return Err(broken(UNKNOWN_NAME, &[operation]));
                    };
                    if create.began > operation.ended {
                        return Err(broken(UNKNOWN_NAME, &[operation, create]));
                    }
                    let is_deleted = |delete: &&&Operation| {
                        delete.got == Some(Got::Done) && delete.ended < operation.began && sees(delete)
                    };
                    if let Some(delete) = delete.as_ref().filter(is_deleted) {
                        return Err(broken(LEFT, &[delete, operation]));
                    }
                }
            }
            (Asked::List { .. }, _) => _ = musts.remove(&operation.began),
            _ => {}
        }
    }
    Ok(())
}

/// The begins and ends of all operations, in their order; true is an end.
fn by_time(operations: &[Operation]) -> Vec<(bool, &Operation)> {
    let mut events: Vec<_> =
        operations.iter().flat_map(|operation| [(false, operation), (true, operation)]).collect();
    events.sort_by_key(|(is_end, operation)| if *is_end { operation.ended } else { operation.began });
    events
}

fn register(operation: &Operation) -> Option<usize> {
    match operation.asked {
        Asked::Set { register, .. } | Asked::Get { register, .. } => Some(register),
        _ => None,
    }
}

fn mzxid(operation: &Operation) -> Option<i64> {
    match &operation.got {
        Some(Got::State(state)) => Some(state.mzxid),
        _ => None,
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { client, session, began, ended, asked, got } = self;
        write!(f, "client {client}, session {session}, from {began} to {ended}: {asked:?} -> ")?;
        match got {
            None => write!(f, "no answer"),
            Some(got) => write!(f, "{got:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
