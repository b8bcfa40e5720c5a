//! Partitions: each item is worked on by its owner alone, whatever happens to members, sessions and connections.

mod faults;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zoolet::recipes::{PartitionError, PartitionItem, Partitioner};
use zoolet::testing::TestServer;
use zoolet::{FencingToken, Sessions};
use zoolet_test_support::secs;

use crate::common::test_server;

const DIR: &str = "/jobs";
const ITEMS: usize = 12;

fn items() -> Vec<String> {
    (0..ITEMS).map(|number| format!("shard-{number}")).collect()
}

/// Who works on each item now, and the highest token with which somebody has.
#[derive(Debug, Clone, Default)]
struct Workplan(Arc<Mutex<BTreeMap<String, ItemRecord>>>);

#[derive(Debug, Clone, Default)]
struct ItemRecord {
    workers: Vec<&'static str>,
    token: u64,
    /// Whether two have worked on it at once.
    shared: bool,
}

struct Working {
    plan: Workplan,
    who: &'static str,
    item: String,
}

impl Workplan {
    fn change<T>(&self, item: &str, change: impl FnOnce(&mut ItemRecord) -> T) -> T {
        let mut items = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(items.entry(item.to_owned()).or_default())
    }

    fn begin(&self, who: &'static str, item: &PartitionItem) -> Working {
        let token = item.guard.token().get();
        self.change(&item.name, |record| {
            assert!(token > record.token, "{who} works on {} with {token} after {}", item.name, record.token);
            assert!(!record.workers.contains(&who), "{who} works twice on {}", item.name);
            record.token = token;
            record.shared |= !record.workers.is_empty();
            record.workers.push(who);
        });
        Working { plan: self.clone(), who, item: item.name.to_string() }
    }

    fn of(&self, who: &str) -> BTreeSet<String> {
        let items = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = items.iter().filter(|(_, record)| record.workers.contains(&who));
        own.map(|(item, _)| item.clone()).collect()
    }

    fn were_shared(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().any(|record| record.shared)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.plan.change(&self.item, |record| record.workers.retain(|who| *who != self.who));
    }
}

struct World {
    zk: TestServer,
    plan: Workplan,
}

/// A member, which leaves when this is dropped.
struct Member {
    name: &'static str,
    sessions: Sessions,
    partitioner: Partitioner,
}

impl Member {
    fn tokens(&self) -> BTreeMap<Arc<str>, FencingToken> {
        self.partitioner.share().items().clone()
    }
}

impl World {
    async fn start() -> Self {
        Self { zk: test_server().start().await.unwrap(), plan: Workplan::default() }
    }

    fn sessions(&self) -> Sessions {
        Sessions::open(self.zk.options(), self.zk.connector()).unwrap()
    }

    fn join(&self, name: &'static str) -> Member {
        self.join_by(name, name, self.sessions())
    }

    /// The member `name`, whose work is noted as that of `who`.
    fn join_by(&self, name: &'static str, who: &'static str, sessions: Sessions) -> Member {
        let plan = self.plan.clone();
        let work = move |item: PartitionItem| {
            let working = plan.begin(who, &item);
            async move {
                let _working = working;
                std::future::pending::<()>().await;
            }
        };
        let partitioner = Partitioner::builder(&sessions, DIR, name).items(items()).start(work).unwrap();
        Member { name, sessions, partitioner }
    }

    /// Lets time pass until the members hold what belongs to them, all of it.
    async fn settle(&self, members: &[&Member], case: &str) {
        for _ in 0..300 {
            self.zk.wait_until_idle().await.unwrap();
            if self.is_settled(members) {
                return;
            }
            self.zk.advance(Duration::from_millis(100)).await.unwrap();
        }
        panic!("{case}: {:?}", members.iter().map(|member| &member.partitioner).collect::<Vec<_>>());
    }

    fn is_settled(&self, members: &[&Member]) -> bool {
        let names: BTreeSet<_> = members.iter().map(|member| member.name).collect();
        let all = members.iter().all(|member| {
            let share = member.partitioner.share();
            let held: BTreeSet<_> = share.items().keys().map(|item| item.to_string()).collect();
            let own = items().into_iter().filter(|item| share.owner(item) == Some(member.name)).collect();
            share.members().eq(names.iter().copied()) && held == own && self.plan.of(member.name) == held
        });
        let held = members.iter().map(|member| member.tokens().len());
        all && held.sum::<usize>() == ITEMS
    }
}

#[tokio::test]
async fn each_item_is_held_by_its_owner_and_only_what_belongs_to_who_comes_or_leaves_changes_hands() {
    let world = World::start().await;
    let one = world.join("a");
    world.settle(&[&one], "alone").await;
    let alone = one.tokens();
    let other = world.join("b");
    world.settle(&[&one, &other], "two").await;
    assert!(!other.tokens().is_empty());
    // The lock of an item that stays was never released: its token is the same.
    assert!(one.tokens().iter().all(|(item, token)| alone[item] == *token), "{:?} {alone:?}", one.tokens());
    let third = world.join("c");
    let before = (one.tokens(), other.tokens());
    world.settle(&[&one, &other, &third], "three").await;
    assert!(one.tokens().iter().all(|(item, token)| before.0[item] == *token));
    assert!(other.tokens().iter().all(|(item, token)| before.1[item] == *token));
    let before = (one.tokens(), third.tokens());
    world.zk.pass_time_until(other.partitioner.leave()).await.unwrap();
    assert_eq!(world.zk.children("/jobs/members"), ["a", "c"]);
    world.settle(&[&one, &third], "two again").await;
    for (member, before) in [(&one, before.0), (&third, before.1)] {
        assert!(before.iter().all(|(item, token)| member.tokens()[item] == *token));
    }
    assert!(!world.plan.were_shared());
}

#[tokio::test]
async fn shares_come_one_after_the_other_and_end_with_the_reason() {
    let world = World::start().await;
    let mut one = world.join("a");
    let other = world.join("b");
    let mut seen = Vec::new();
    while seen.last() != Some(&ITEMS) {
        seen.push(
            world.zk.pass_time_until(one.partitioner.next_share()).await.unwrap().unwrap().items().len(),
        );
        if seen.len() == 1 {
            world.settle(&[&one, &other], "two").await;
            drop(other.partitioner);
            break;
        }
    }
    while one.partitioner.share().items().len() < ITEMS {
        world.zk.pass_time_until(one.partitioner.next_share()).await.unwrap().unwrap();
    }
    one.sessions.close().await;
    let error = loop {
        match world.zk.pass_time_until(one.partitioner.next_share()).await.unwrap() {
            Ok(share) => assert!(share.items().len() <= ITEMS),
            Err(error) => break error,
        }
    };
    assert!(matches!(
        error,
        PartitionError::Member(_) | PartitionError::Members(_) | PartitionError::Lock { .. }
    ));
    assert_eq!(world.plan.of("a"), BTreeSet::new());
}

#[tokio::test]
async fn a_second_member_of_a_name_waits_until_the_first_has_left() {
    let world = World::start().await;
    let one = world.join("a");
    world.settle(&[&one], "alone").await;
    let second = world.join_by("a", "second", world.sessions());
    world.zk.advance(secs(20)).await.unwrap();
    assert_eq!((one.tokens().len(), second.tokens().len()), (ITEMS, 0));
    drop(one.partitioner);
    world.zk.advance(secs(20)).await.unwrap();
    assert_eq!((world.plan.of("a").len(), world.plan.of("second").len()), (0, ITEMS));
    assert!(!world.plan.were_shared());
}

#[tokio::test]
async fn what_is_not_ephemeral_is_no_member() {
    let world = World::start().await;
    world.zk.set("/jobs/members/left-by-somebody", "").await.unwrap();
    let one = world.join("a");
    world.settle(&[&one], "alone").await;
}

#[tokio::test]
async fn a_work_that_ends_keeps_its_item_and_one_that_panics_ends_the_membership() {
    let world = World::start().await;
    let sessions = world.sessions();
    let panics = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let work = {
        let panics = Arc::clone(&panics);
        move |item: PartitionItem| {
            let panics = Arc::clone(&panics);
            async move {
                assert!(
                    !(&*item.name == "shard-3" && panics.load(std::sync::atomic::Ordering::SeqCst)),
                    "on purpose"
                );
            }
        }
    };
    let mut partitioner =
        Partitioner::builder(&sessions, DIR, "a").items(items()).start(work.clone()).unwrap();
    world.zk.advance(secs(1)).await.unwrap();
    assert_eq!(partitioner.share().items().len(), ITEMS);
    drop(partitioner);
    panics.store(true, std::sync::atomic::Ordering::SeqCst);
    partitioner = Partitioner::builder(&sessions, DIR, "a").items(items()).start(work).unwrap();
    let error = loop {
        if let Err(error) = world.zk.pass_time_until(partitioner.next_share()).await.unwrap() {
            break error;
        }
    };
    assert!(matches!(&error, PartitionError::WorkPanicked { item } if &**item == "shard-3"), "{error}");
    world.zk.advance(secs(1)).await.unwrap();
    assert_eq!(world.zk.children("/jobs/members"), Vec::<String>::new());
}

#[tokio::test]
async fn names_that_cannot_be_znodes_are_refused_before_anything_is_sent() {
    let world = World::start().await;
    let sessions = world.sessions();
    let builder = |member: &str, item: &str| {
        Partitioner::builder(&sessions, DIR, member).items([item.to_owned()]).start(async |_| {})
    };
    for (member, item) in [("a/b", "x"), ("", "x"), ("a", "x/y"), ("a", ".."), ("a", "")] {
        let error = builder(member, item).unwrap_err();
        assert!(matches!(error, PartitionError::InvalidName(_)), "{member:?} {item:?}: {error}");
    }
}
