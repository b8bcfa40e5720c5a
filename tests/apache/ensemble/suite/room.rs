//! The critical section that a lock guards, kept in the ensemble: it refuses contenders that must not be inside together.
//!
//! A contender that enters creates a marker, in one transaction with the check of its lock and with a proof that no contender
//! is inside that must not be: only an empty znode can be deleted, and deleting and recreating it is atomic. The markers of
//! holders that have lost their lock in the meantime may remain; those are removed.

use zoolet::recipes::FencedTxn;
use zoolet::{Client, ErrorCode, Guard};

use super::place::Place;
use super::trouble::{Trouble, again};

/// How many permits a semaphore has.
pub const SLOTS: usize = 3;

/// How often everything must look taken before a holder of a permit may fail.
const LOOKS: usize = 100;

/// In which role a contender is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Alone.
    Alone,
    /// With others like it.
    Shared,
    /// In so many of [`SLOTS`] parts of it, and in each alone.
    Some(usize),
}

/// Where a holder is: the paths of its markers.
#[derive(Debug, Default)]
pub struct Inside(Vec<String>);

enum Answer {
    Entered(Inside),
    /// A contender without a lock was removed or has left, or holders of locks occupy all slots.
    Again,
}

/// Enters the rooms of all `places` at once.
///
/// # Panics
/// If a contender that still has its lock is in the way.
pub async fn enter(places: &[&Place], zk: &Client, guard: &Guard, role: Role) -> Result<Inside, Trouble> {
    for _ in 0..LOOKS {
        let answer = match role {
            Role::Some(count) => enter_some(places[0], zk, guard, count).await?,
            _ => enter_all(places, zk, guard, role).await?,
        };
        if let Answer::Entered(inside) = answer {
            return Ok(inside);
        }
    }
    panic!("{guard:?} finds no way in:\n{}", places[0].describe().await);
}

/// Leaves; no other contender enters before this is done.
pub async fn leave(zk: &Client, inside: &Inside) -> Result<(), Trouble> {
    for marker in &inside.0 {
        match again(|| zk.delete(marker)).await {
            Ok(()) | Err(Trouble::Refused(ErrorCode::NoNode)) => {}
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(())
}

async fn enter_all(places: &[&Place], zk: &Client, guard: &Guard, role: Role) -> Result<Answer, Trouble> {
    let empty: &[_] = if role == Role::Alone { &["alone", "shared"] } else { &["alone"] };
    let own = if role == Role::Alone { "alone" } else { "shared" };
    let (mut txn, mut inside) = (guard.fenced(), Inside::default());
    for place in places {
        txn = empty.iter().fold(txn, |txn, room| refill(txn, &place.at(room)));
        // Of several locks at once, the one of this place.
        let node = guard
            .nodes()
            .iter()
            .find(|node| place.is_of(node))
            .expect("a znode in the directory of the lock");
        txn = mark(txn, zk, guard, node, &place.at(own), &mut inside);
    }
    match entered(txn).await? {
        Some(true) => return Ok(Answer::Entered(inside)),
        Some(false) => {}
        None => return Ok(Answer::Again),
    }
    for place in places {
        for room in empty {
            match others(place, zk, &place.at(room), guard).await?.pop() {
                None => {}
                Some(Other::Myself) => return Ok(Answer::Entered(inside)),
                Some(Other::Holder(node)) => {
                    // Or it has lost its lock since it was kept out.
                    guard.verify().await?;
                    let scene = place.describe().await;
                    panic!("{node} and {guard:?}, {role:?}, are inside at once:\n{scene}");
                }
            }
        }
    }
    // A reader may be inside from an earlier try.
    match role {
        Role::Shared if again(|| zk.exists(&inside.0[0])).await?.is_some() => Ok(Answer::Entered(inside)),
        _ => Ok(Answer::Again),
    }
}

async fn enter_some(place: &Place, zk: &Client, guard: &Guard, count: usize) -> Result<Answer, Trouble> {
    // Others that leave soon would hide it.
    let (leases, _) = again(|| zk.get_children(place.at("lock/leases"))).await?;
    assert!(leases.len() <= SLOTS, "{} permits where there are {SLOTS}: {leases:?}", leases.len());
    let (mut free, mut inside) = (Vec::new(), Inside::default());
    for slot in (0..SLOTS).map(|slot| place.at(&format!("slot-{slot}"))) {
        match others(place, zk, &slot, guard).await?.pop() {
            None => free.push(slot),
            Some(Other::Myself) => inside.0.push(marker(&slot, guard)),
            Some(Other::Holder(_)) => {}
        }
    }
    // By an earlier try, then.
    if inside.0.len() == count {
        return Ok(Answer::Entered(inside));
    }
    if free.len() < count {
        guard.verify().await?;
        return Ok(Answer::Again);
    }
    let mut txn = guard.fenced();
    for (slot, node) in free[..count].iter().zip(guard.nodes()) {
        txn = mark(refill(txn, slot), zk, guard, node, slot, &mut inside);
    }
    match entered(txn).await? {
        Some(true) => Ok(Answer::Entered(inside)),
        _ => Ok(Answer::Again),
    }
}

/// Whether it is done, or another contender is inside; `None` if the outcome is unknown.
async fn entered(txn: FencedTxn<'_>) -> Result<Option<bool>, Trouble> {
    match txn.commit().await.map_err(Trouble::from) {
        Ok(_) => Ok(Some(true)),
        Err(Trouble::Refused(ErrorCode::NotEmpty | ErrorCode::NodeExists)) => Ok(Some(false)),
        Err(Trouble::Connection) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// Fails unless it is empty.
fn refill<'g>(txn: FencedTxn<'g>, room: &str) -> FencedTxn<'g> {
    txn.delete(room).create(room, "")
}

fn mark<'g>(
    txn: FencedTxn<'g>,
    zk: &Client,
    guard: &Guard,
    node: &str,
    room: &str,
    inside: &mut Inside,
) -> FencedTxn<'g> {
    let marker = marker(room, guard);
    let txn = txn.add(zk.create(&marker, node.to_owned()).ephemeral());
    inside.0.push(marker);
    txn
}

fn marker(room: &str, guard: &Guard) -> String {
    format!("{room}/{}", guard.token())
}

enum Other {
    Myself,
    Holder(String),
}

/// The contenders inside. Those that have lost their lock are removed.
async fn others(place: &Place, zk: &Client, room: &str, guard: &Guard) -> Result<Vec<Other>, Trouble> {
    let mut others = Vec::new();
    let (tokens, _) = again(|| zk.get_children(room)).await?;
    for token in tokens {
        let marker = format!("{room}/{token}");
        if token == guard.token().to_string() {
            others.push(Other::Myself);
            continue;
        }
        let node = match again(|| zk.get_data(&marker)).await {
            Ok((node, _)) => String::from_utf8_lossy(&node).into_owned(),
            Err(Trouble::Refused(ErrorCode::NoNode)) => continue,
            Err(trouble) => return Err(trouble),
        };
        let stat = again(|| zk.exists(&node)).await?;
        // The name of a lock that is a single znode is that of the next holder, too.
        let is_of_another = |czxid: i64| node == place.lock() && czxid.to_string() != token;
        if stat.is_some_and(|stat| !is_of_another(stat.czxid.0)) {
            others.push(Other::Holder(node));
            continue;
        }
        match again(|| zk.delete(&marker)).await {
            Ok(()) | Err(Trouble::Refused(ErrorCode::NoNode)) => {}
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(others)
}
