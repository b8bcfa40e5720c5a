//! create, in all its modes.

use std::mem;
use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::{self, Op};
use zoolet_proto::{Acl, AclList, CreateMode, Reply, Request, Stat};

use super::parents::CreateWithParents;
use super::{decode, sendable};
use crate::call::Call;
use crate::client::Client;
use crate::command::{DecodedReply, ReplyExtra};
use crate::context::ErrorContext;
use crate::error::Error;

/// The result of a create.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// The path, including the number of a sequential znode.
    pub path: String,
    /// Its initial `Stat`. `czxid` is the transaction that created it. A server of 3.4 replies without a `Stat`: this one is
    /// exact then too, but for `ctime` and `mtime`, which are 0. [`Client::exists`] reads them, perhaps after others have
    /// changed the znode.
    pub stat: Stat,
    sequence: Option<i32>,
}

impl Created {
    /// A result that no server returned, for code that wraps a create.
    pub fn new(path: impl Into<String>, stat: Stat) -> Self {
        Self { path: path.into(), stat, sequence: None }
    }

    /// The number that the server has appended to the name of a [sequential](Create::sequential) znode; `None` for any
    /// other znode. The counter of a parent wraps to negative numbers after 2,147,483,647.
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// let job = zk.create("/jobs/job-", "payload").sequential().await?;
    /// assert_eq!((job.path.as_str(), job.sequence()), ("/jobs/job-0000000007", Some(7)));
    /// # Ok(()) }
    /// ```
    pub fn sequence(&self) -> Option<i32> {
        self.sequence
    }
}

/// A create that is not sent yet; from [`Client::create`].
///
/// A znode is persistent, unless one of [`ephemeral`](Self::ephemeral), [`container`](Self::container) and
/// [`ttl`](Self::ttl) is chosen. Two of them fail with [`Error::InvalidOptions`], before anything is sent; so does a
/// container that is [`sequential`](Self::sequential), which the protocol has not.
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let job = zk.create("/jobs/job-", "payload").ephemeral().sequential().await?;
/// assert_eq!(job.path, "/jobs/job-0000000000");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a request is sent by `.await` or `.send()`"]
pub struct Create<'c> {
    client: &'c Client,
    path: String,
    data: Bytes,
    acl: AclList,
    kind: CreateKind,
    /// Two options that exclude each other.
    conflict: Option<[&'static str; 2]>,
    sequential: bool,
    timeout: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
enum CreateKind {
    Persistent,
    Ephemeral,
    Container,
    Ttl(Duration),
}

impl CreateKind {
    /// What chooses it.
    fn method(self) -> &'static str {
        match self {
            Self::Persistent => "persistent",
            Self::Ephemeral => "`.ephemeral()`",
            Self::Container => "`.container()`",
            Self::Ttl(_) => "`.ttl(..)`",
        }
    }
}

impl<'c> Create<'c> {
    pub(crate) fn new(client: &'c Client, path: String, data: Bytes) -> Self {
        let kind = CreateKind::Persistent;
        Self {
            client,
            path,
            data,
            acl: AclList::OPEN,
            kind,
            conflict: None,
            sequential: false,
            timeout: None,
        }
    }

    /// Notes a kind. A znode has one: another that was chosen before is not silently replaced.
    fn choose(mut self, kind: CreateKind) -> Self {
        let same = mem::discriminant(&self.kind) == mem::discriminant(&kind);
        if !same && !matches!(self.kind, CreateKind::Persistent) {
            self.conflict.get_or_insert([self.kind.method(), kind.method()]);
        }
        self.kind = kind;
        self
    }

    /// Makes the znode ephemeral: it is deleted when the session ends. Excludes [`container`](Self::container) and
    /// [`ttl`](Self::ttl).
    pub fn ephemeral(self) -> Self {
        self.choose(CreateKind::Ephemeral)
    }

    /// Appends the counter of the parent to the name, as ten digits. The path may then end in a slash.
    pub fn sequential(mut self) -> Self {
        self.sequential = true;
        self
    }

    /// Makes the znode a container: the server deletes it some time after its last child. Excludes
    /// [`ephemeral`](Self::ephemeral), [`ttl`](Self::ttl) and [`sequential`](Self::sequential).
    pub fn container(self) -> Self {
        self.choose(CreateKind::Container)
    }

    /// Gives the znode a time to live, in whole milliseconds: the server deletes it when it has no children and its data
    /// was not set for `ttl`. Servers refuse it with `Unimplemented` unless they are configured for it.
    /// Excludes [`ephemeral`](Self::ephemeral) and [`container`](Self::container).
    pub fn ttl(self, ttl: Duration) -> Self {
        self.choose(CreateKind::Ttl(ttl))
    }

    /// The ACL of the znode. Default: [`Acl::open`].
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl.into();
        self
    }

    /// Also creates the parents that are missing: persistent, with the same ACL. Choose everything else first.
    pub fn parents(self) -> CreateWithParents<'c> {
        CreateWithParents::new(self)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn at(self, path: &str, data: Bytes) -> Self {
        Self { path: path.to_owned(), data, ..self }
    }

    /// The same as a persistent, not sequential create.
    pub(super) fn into_plain(self) -> Self {
        Self { kind: CreateKind::Persistent, conflict: None, sequential: false, ..self }
    }

    fn call(self) -> Call<'c, Created> {
        let (client, timeout) = (self.client, self.timeout);
        let request = self.into_op().map(Request::from);
        let decode = decode!("create", DecodedReply { reply: Reply::Created2(path, stat), extra } => {
            let sequence = extra.and_then(|extra| match *extra {
                ReplyExtra::Sequence(number) => Some(number),
                ReplyExtra::Watch(_) | ReplyExtra::WatchStream(_) => None,
            });
            Created { path, stat, sequence }
        });
        Call::new(client, request, decode).with_timeout(timeout)
    }

    /// The operation, for a request or for a multi.
    pub(crate) fn into_op(self) -> Result<Op, Error> {
        // The protocol has no such mode. Servers take the flags, but 3.9.5 then logs a wrong digest.
        let numbered_container = matches!(self.kind, CreateKind::Container) && self.sequential;
        let numbered_container = numbered_container.then_some(["`.container()`", "`.sequential()`"]);
        if let Some([one, other]) = self.conflict.or(numbered_container) {
            let context = ErrorContext::local("create", self.path);
            let reason = format!("{one} and {other} exclude each other");
            return Err(Error::InvalidOptions { context, reason });
        }
        let path = self.client.checked_path("create", self.path, self.sequential)?;
        let (data, acl) = (Some(self.data), Some(self.acl));
        let mode = match (self.kind, self.sequential) {
            (CreateKind::Persistent, false) => CreateMode::Persistent,
            (CreateKind::Persistent, true) => CreateMode::PersistentSequential,
            (CreateKind::Ephemeral, false) => CreateMode::Ephemeral,
            (CreateKind::Ephemeral, true) => CreateMode::EphemeralSequential,
            (CreateKind::Container, _) => CreateMode::Container,
            (CreateKind::Ttl(_), false) => CreateMode::PersistentWithTtl,
            (CreateKind::Ttl(_), true) => CreateMode::PersistentSequentialWithTtl,
        };
        let flags = mode.code();
        Ok(match self.kind {
            CreateKind::Persistent | CreateKind::Ephemeral => {
                Op::Create2(records::Create { path, data, acl, flags })
            }
            CreateKind::Container => Op::CreateContainer(records::Create { path, data, acl, flags }),
            CreateKind::Ttl(ttl) => {
                let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
                Op::CreateTtl(records::CreateTtl { path, data, acl, flags, ttl })
            }
        })
    }
}

sendable!(Create => Created);
