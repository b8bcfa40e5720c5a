//! Compares a history with the rules of ZooKeeper, in one pass over its sorted operations.
//!
//! Nothing is searched for: the zxids in the replies tell the order of the writes, and what is left is to see that this is the order
//! that clients saw.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use super::{Call, CallOutcome, Register, RegisterOp};
use crate::history::verdict::{CheckError, Operation, Rule, broken};

/// Checks a history against the rules. In an ensemble, reads are up to date only after a sync, or for what the same session has seen.
///
/// # Errors
/// The first broken rule.
pub(super) fn check(operations: &[RegisterOp], is_ensemble: bool) -> Result<(), CheckError> {
    registers(operations)?;
    order(operations, is_ensemble)?;
    lists(operations, is_ensemble)
}

/// A violation by `operation`, which contradicts `other`.
fn violation(
    rule: Rule,
    operation: &RegisterOp,
    other: Option<&RegisterOp>,
    expected: &str,
    seen: &str,
) -> CheckError {
    let named = |operation: &RegisterOp| Operation::unidentified(&operation.to_string());
    broken(rule, named(operation), other.map(named), expected, seen)
}

/// Each register has one value at a zxid, its versions count its writes, and none is written by nobody.
fn registers(operations: &[RegisterOp]) -> Result<(), CheckError> {
    let mut writes: HashMap<(usize, &str), &RegisterOp> = HashMap::new();
    let mut states: BTreeMap<(usize, i64), (&Register, &RegisterOp)> = BTreeMap::new();
    for operation in operations {
        if let Call::Set { register, value, .. } = &operation.call {
            writes.insert((*register, value), operation);
        }
    }
    for operation in operations {
        let (Some(register), Some(state)) = (register(operation), state(operation)) else { continue };
        let is_new = state.value.is_empty() && state.version == 0;
        if !is_new && !writes.contains_key(&(register, &state.value)) {
            let seen = format!("{:?}", state.value);
            return Err(violation(Rule::KnownValue, operation, None, "a value that was written", &seen));
        }
        if let Call::Set { version, .. } = operation.call {
            if version >= 0 && state.version != version + 1 {
                let (expected, seen) =
                    (format!("version {}", version + 1), format!("version {}", state.version));
                return Err(violation(Rule::ExpectedVersion, operation, None, &expected, &seen));
            }
        }
        let (known, by) = states.entry((register, state.mzxid)).or_insert((state, operation));
        if *known != state {
            let (expected, seen) = (format!("{known:?}"), format!("{state:?}"));
            return Err(violation(Rule::OneValue, operation, Some(by), &expected, &seen));
        }
    }
    // Writes without an answer, which may explain versions that nobody saw.
    let mut unseen: HashMap<usize, i32> = HashMap::new();
    let seen: HashSet<_> =
        states.iter().map(|((register, _), (state, _))| (*register, state.value.as_str())).collect();
    for (write, operation) in &writes {
        if operation.outcome.is_none() && !seen.contains(write) {
            *unseen.entry(write.0).or_default() += 1;
        }
    }
    let mut before: Option<(usize, i32, &RegisterOp)> = None;
    for ((register, _), (state, by)) in &states {
        let known = before.replace((*register, state.version, by)).filter(|(other, ..)| other == register);
        let (version, other) = known.map_or((0, None), |(_, version, by)| (version, Some(by)));
        if other.is_none() && state.value.is_empty() {
            continue;
        }
        let seen = format!("version {}", state.version);
        if state.version <= version {
            let expected = format!("a version above {version}");
            return Err(violation(Rule::NoLostWrite, by, other, &expected, &seen));
        }
        let left = unseen.entry(*register).or_default();
        let most = version + 1 + *left;
        *left -= state.version - version - 1;
        if *left < 0 {
            let expected = format!("version {most} at most, by as many writes");
            return Err(violation(Rule::CountedVersions, by, other, &expected, &seen));
        }
    }
    Ok(())
}

/// An operation shows nothing older than the operations that had ended when it began.
fn order(operations: &[RegisterOp], is_ensemble: bool) -> Result<(), CheckError> {
    // The newest state of each register that an ended operation has shown: to anybody, by a write, and to a session.
    let mut shown: HashMap<usize, &RegisterOp> = HashMap::new();
    let mut written: HashMap<usize, &RegisterOp> = HashMap::new();
    let mut own: HashMap<(usize, usize, usize), &RegisterOp> = HashMap::new();
    // By its begin, the newest of these that an operation which has not ended must not fall behind.
    let mut floors: HashMap<u64, &RegisterOp> = HashMap::new();
    for (is_end, operation) in by_time(operations) {
        let Some(register) = register(operation) else { continue };
        let owned = (operation.client, operation.session, register);
        let is_write = matches!(operation.call, Call::Set { .. });
        if !is_end {
            // In an ensemble another client's read may come from a server that is ahead, so only writes bind those who sync.
            let global = match &operation.call {
                _ if !is_ensemble || is_write => shown.get(&register),
                Call::Get { synced: true, .. } => written.get(&register),
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
            let rule = match (at.cmp(&least), is_write) {
                (Ordering::Less, true) => Some(Rule::WriteOrder),
                (Ordering::Less, false) => Some(Rule::FreshRead),
                (Ordering::Equal, true) => Some(Rule::OneValue),
                _ => None,
            };
            if let Some(rule) = rule {
                let more = if is_write { "above" } else { "of at least" };
                let (expected, seen) = (format!("an mzxid {more} {least:#x}"), format!("mzxid {at:#x}"));
                return Err(violation(rule, operation, Some(floor), &expected, &seen));
            }
        }
        keep_newest(&mut shown, register, operation);
        keep_newest(&mut own, owned, operation);
        if is_write {
            keep_newest(&mut written, register, operation);
        }
    }
    Ok(())
}

/// Puts an operation in the place of one that has shown an older state.
fn keep_newest<'o, K: Eq + Hash>(newest: &mut HashMap<K, &'o RegisterOp>, key: K, operation: &'o RegisterOp) {
    let known = newest.entry(key).or_insert(operation);
    if mzxid(known) < mzxid(operation) {
        *known = operation;
    }
}

/// Calls by the name that they are about.
type Calls<'o> = HashMap<&'o str, &'o RegisterOp>;

/// Lists have what was created and not deleted.
fn lists(operations: &[RegisterOp], is_ensemble: bool) -> Result<(), CheckError> {
    // Each name is created once.
    let (mut creates, mut deletes) = (Calls::new(), Calls::new());
    for operation in operations {
        match &operation.call {
            Call::Create { name } => _ = creates.insert(name, operation),
            Call::Delete { name } => _ = deletes.insert(name, operation),
            _ => {}
        }
    }
    // Names that a list must have: created, and their deletion has not begun.
    let mut there: HashSet<&str> = HashSet::new();
    let mut musts: HashMap<u64, HashSet<&str>> = HashMap::new();
    for (is_end, operation) in by_time(operations) {
        match (&operation.call, &operation.outcome) {
            (Call::Create { name }, Some(CallOutcome::Done)) if is_end => _ = there.insert(name),
            (Call::Delete { name }, _) if !is_end => {
                // From here on, a list that has begun may have it or not.
                there.remove(name.as_str());
                musts.values_mut().for_each(|must| _ = must.remove(name.as_str()));
            }
            (call, Some(CallOutcome::Missing)) if is_end => {
                let (name, is_certain) = match call {
                    Call::Get { register, synced } => (format!("register {register}"), *synced),
                    Call::Set { register, .. } => (format!("register {register}"), true),
                    Call::List { synced } => ("the parent of the list".to_owned(), *synced),
                    Call::Create { .. } => ("the parent of the list".to_owned(), true),
                    Call::Delete { name } => (name.clone(), true),
                };
                if is_certain || !is_ensemble {
                    return Err(missing(&name, operation, creates.get(name.as_str()).copied()));
                }
            }
            (Call::List { .. }, _) if !is_end => _ = musts.insert(operation.began, there.clone()),
            (Call::List { synced }, Some(CallOutcome::Names(names))) => {
                let sees = |other: &RegisterOp| {
                    !is_ensemble
                        || *synced
                        || (other.client, other.session) == (operation.client, operation.session)
                };
                let must = musts.remove(&operation.began).unwrap_or_default();
                check_list(operation, names, &must, &creates, &deletes, sees)?;
            }
            (Call::List { .. }, _) => _ = musts.remove(&operation.began),
            _ => {}
        }
    }
    Ok(())
}

/// Checks a list. `must` are the names that it must have if its session `sees` who has created them.
fn check_list(
    list: &RegisterOp,
    names: &[String],
    must: &HashSet<&str>,
    creates: &Calls<'_>,
    deletes: &Calls<'_>,
    sees: impl Fn(&RegisterOp) -> bool,
) -> Result<(), CheckError> {
    let listed: HashSet<_> = names.iter().map(String::as_str).collect();
    for name in must.difference(&listed) {
        if let Some(create) = creates.get(name).filter(|create| sees(create)) {
            return Err(missing(name, list, Some(create)));
        }
    }
    for name in listed {
        let create = creates.get(name).copied();
        if create.is_none_or(|create| create.began > list.ended) {
            return Err(violation(Rule::KnownName, list, create, "only names that were created", name));
        }
        let is_deleted = |delete: &RegisterOp| {
            delete.outcome == Some(CallOutcome::Done) && delete.ended < list.began && sees(delete)
        };
        if let Some(delete) = deletes.get(name).filter(|delete| is_deleted(delete)) {
            let (expected, seen) = (format!("a list without {name}"), format!("{name} in it"));
            return Err(violation(Rule::NoLostDelete, list, Some(delete), &expected, &seen));
        }
    }
    Ok(())
}

/// A name that was created and not deleted is not there.
fn missing(name: &str, operation: &RegisterOp, create: Option<&RegisterOp>) -> CheckError {
    violation(Rule::NoLostCreate, operation, create, &format!("{name} is there"), "it is not")
}

/// The begins and ends of all operations, in their order; true is an end.
fn by_time(operations: &[RegisterOp]) -> Vec<(bool, &RegisterOp)> {
    let mut events: Vec<_> =
        operations.iter().flat_map(|operation| [(false, operation), (true, operation)]).collect();
    events.sort_by_key(|(is_end, operation)| if *is_end { operation.ended } else { operation.began });
    events
}

fn register(operation: &RegisterOp) -> Option<usize> {
    match operation.call {
        Call::Set { register, .. } | Call::Get { register, .. } => Some(register),
        _ => None,
    }
}

fn state(operation: &RegisterOp) -> Option<&Register> {
    match &operation.outcome {
        Some(CallOutcome::State(state)) => Some(state),
        _ => None,
    }
}

fn mzxid(operation: &RegisterOp) -> Option<i64> {
    state(operation).map(|state| state.mzxid)
}

impl std::fmt::Display for RegisterOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { client, session, began, ended, call, outcome } = self;
        write!(f, "client {client}, session {session}, from {began} to {ended}: {call:?} -> ")?;
        match outcome {
            None => write!(f, "no answer"),
            Some(outcome) => write!(f, "{outcome:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
