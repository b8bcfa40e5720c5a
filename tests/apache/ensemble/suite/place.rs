//! What a lock protects, kept by the ensemble itself: the judge of who wrote, and in which order.
//!
//! Everything here is decided by transactions and replies, nothing by what contenders believe: a log whose entries are numbered by reading the last number and adding one, and a
//! counter that is counted up so without a fence.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::time::Duration;

use zoolet::{Client, Error, ErrorCode, Guard, HoldState, LockError};

use super::room::SLOTS;
use super::trouble::{Trouble, again};

/// How long a member may take to show what it sees.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Something that a lock protects.
#[derive(Debug, Clone)]
pub struct Place {
    base: String,
    /// All members.
    connect: String,
}

/// What a contender knows of its writes.
#[derive(Debug, Default)]
pub struct Account {
    /// Entries of the log that were acknowledged.
    pub acknowledged: HashSet<String>,
    /// Those whose outcome it never learnt.
    pub unknown: HashSet<String>,
    /// The same of the counter, which has no entries.
    pub counted: usize,
    pub perhaps_counted: usize,
}

impl Account {
    pub fn add(&mut self, other: Self) {
        self.acknowledged.extend(other.acknowledged);
        self.unknown.extend(other.unknown);
        self.counted += other.counted;
        self.perhaps_counted += other.perhaps_counted;
    }
}

impl Place {
    pub async fn create(zk: &Client, connect: &str, base: String) -> Result<Self, Error> {
        zk.create(&base, "").await?;
        let slots = (0..SLOTS).map(|slot| format!("slot-{slot}"));
        for child in ["alone", "shared", "log"].map(str::to_owned).into_iter().chain(slots) {
            zk.create(format!("{base}/{child}"), "").await?;
        }
        for number in ["entries", "counter"] {
            zk.create(format!("{base}/{number}"), "0").await?;
        }
        Ok(Self { base, connect: connect.to_owned() })
    }

    /// Where its contenders queue.
    pub fn lock(&self) -> String {
        self.at("lock")
    }

    pub fn at(&self, child: &str) -> String {
        format!("{}/{child}", self.base)
    }

    /// Whether this is a znode of its lock.
    pub fn is_of(&self, node: &str) -> bool {
        node.starts_with(&self.lock())
    }

    async fn number(&self, zk: &Client, child: &str) -> Result<usize, Trouble> {
        let (data, _) = again(|| zk.get_data(self.at(child))).await?;
        Ok(String::from_utf8_lossy(&data).parse().expect("a number"))
    }

    /// How many entries the log has.
    pub async fn entries(&self, zk: &Client) -> Result<usize, Trouble> {
        self.number(zk, "entries").await
    }

    /// Counts up without a fence, by the session of the guard and while that still counts as held. So the server has the
    /// write before the deletion of the guard's znode, or never.
    pub async fn count(&self, zk: &Client, guard: &Guard, account: &mut Account) -> Result<(), Trouble> {
        let count = self.number(zk, "counter").await?;
        if guard.state() != HoldState::Held {
            return Ok(());
        }
        match zk.set_data(self.at("counter"), (count + 1).to_string()).await {
            Ok(_) => account.counted += 1,
            Err(error) => {
                account.perhaps_counted += usize::from(error.may_have_applied());
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// The tree without the log, as each member sees it: for the diagnosis of a failure.
    pub async fn describe(&self) -> String {
        let mut scene = String::new();
        for member in self.connect.split(',') {
            let _ = writeln!(scene, "at {member}:");
            match Client::options().connect_timeout(AT_ONCE).connect(member).await {
                Ok(zk) => scene += &self.describe_at(&zk).await,
                Err(error) => _ = writeln!(scene, "{error}"),
            }
        }
        scene
    }

    async fn describe_at(&self, zk: &Client) -> String {
        let _ = zk.sync(&self.base).await;
        let (mut scene, mut paths) = (String::new(), vec![self.base.clone()]);
        while let Some(path) = paths.pop() {
            let Ok((data, stat)) = zk.get_data(&path).await else { continue };
            let (czxid, owner) = (stat.czxid, stat.ephemeral_owner);
            let _ = writeln!(scene, "{path} {data:?} of {owner}, czxid {czxid}, cversion {}", stat.cversion);
            if let Ok((names, _)) = zk.get_children(&path).await {
                let shown = names.into_iter().filter(|name| name != "log");
                paths.extend(shown.map(|name| format!("{path}/{name}")));
            }
        }
        scene
    }

    /// Checks log and counters against what contenders were told. Returns the number of entries.
    ///
    /// # Panics
    /// When they are not.
    pub async fn judge(&self, zk: &Client, account: &Account) -> Result<usize, Trouble> {
        let entries = self.entries(zk).await?;
        let (names, _) = zk.get_children(self.at("log")).await?;
        assert_eq!(names.len(), entries, "entries of {}", self.base);
        let mut written = HashSet::new();
        let (mut last, mut writers) = (0, HashMap::new());
        for entry in 1..=entries {
            let (data, _) = zk.get_data(self.at(&format!("log/{entry}"))).await?;
            let data = String::from_utf8_lossy(&data).into_owned();
            let (token, id) = data.split_once(' ').expect("a token and an id");
            let token: u64 = token.parse().expect("a token");
            assert!(token >= last, "{}: {data} follows token {last}", self.base);
            let holder = id.split_once('#').expect("a contender and a number").0.to_owned();
            let writer = writers.entry(token).or_insert_with(|| holder.clone());
            assert_eq!(*writer, holder, "{}: two holders with token {token}", self.base);
            last = token;
            assert!(written.insert(id.to_owned()), "{}: {id} is there twice", self.base);
        }
        let lost: Vec<_> = account.acknowledged.difference(&written).collect();
        assert!(lost.is_empty(), "{}: acknowledged and not there: {lost:?}", self.base);
        let stray = |id: &&String| !account.acknowledged.contains(*id) && !account.unknown.contains(*id);
        let stray: Vec<_> = written.iter().filter(stray).collect();
        assert!(stray.is_empty(), "{}: there, though refused: {stray:?}", self.base);
        let count = self.number(zk, "counter").await?;
        let most = account.counted + account.perhaps_counted;
        assert!((account.counted..=most).contains(&count), "{}: {count}, not {account:?}", self.base);
        Ok(entries)
    }
}

/// Appends an entry to the logs of all `places`, or to none.
///
/// # Panics
/// If another client has written in between.
pub async fn write(
    places: &[&Place],
    zk: &Client,
    guard: &Guard,
    id: &str,
    account: &mut Account,
) -> Result<(), Trouble> {
    let mut txn = guard.fenced();
    for place in places {
        let entry = place.entries(zk).await? + 1;
        txn = txn
            .create(place.at(&format!("log/{entry}")), format!("{} {id}", guard.token()))
            .set_data(place.at("entries"), entry.to_string());
    }
    let outcome = txn.commit().await;
    if let Err(LockError::Client(error)) = &outcome {
        assert_ne!(error.code(), Some(ErrorCode::NodeExists), "{id}: another client has written in between");
    }
    let unknown = match &outcome {
        Ok(_) => return Ok(_ = account.acknowledged.insert(id.to_owned())),
        Err(LockError::Client(error)) => error.may_have_applied(),
        Err(LockError::SessionOver { .. }) => true,
        Err(_) => false,
    };
    if unknown {
        account.unknown.insert(id.to_owned());
    }
    outcome.map(drop).map_err(Trouble::from)
}
