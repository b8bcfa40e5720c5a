//! create, in all its modes.

use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::{self, Op};
use zoolet_proto::{Acl, CreateMode, Reply, Request, Stat};

use super::parents::CreateWithParents;
use super::{decode, sendable};
use crate::call::{Call, DecodedReply};
use crate::client::Client;
use crate::error::Error;

/// The result of a create.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// The path, including the number of a sequential znode.
    pub path: String,
    /// Its initial `Stat`. `czxid` is the transaction that created it.
    pub stat: Stat,
}

impl Created {
    /// A result that no server returned, for code that wraps a create.
    pub fn new(path: impl Into<String>, stat: Stat) -> Self {
        Self { path: path.into(), stat }
    }
}

/// A create that is not sent yet; from [`Client::create`].
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
    acl: Option<Vec<Acl>>,
    kind: CreateKind,
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

impl<'c> Create<'c> {
    pub(crate) fn new(client: &'c Client, path: String, data: Bytes) -> Self {
        Self { client, path, data, acl: None, kind: CreateKind::Persistent, sequential: false, timeout: None }
    }

    /// Makes the znode ephemeral: it is deleted when the session ends.
    pub fn ephemeral(mut self) -> Self {
        self.kind = CreateKind::Ephemeral;
        self
    }

    /// Appends the counter of the parent to the name, as ten digits. The path may then end in a slash.
    pub fn sequential(mut self) -> Self {
        self.sequential = true;
        self
    }

    /// Makes the znode a container: the server deletes it some time after its last child.
    pub fn container(mut self) -> Self {
        self.kind = CreateKind::Container;
        self
    }

    /// Gives the znode a time to live, in whole milliseconds: the server deletes it when it has no children and its data
    /// was not set for `ttl`. Servers refuse it with `Unimplemented` unless they are configured for it.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.kind = CreateKind::Ttl(ttl);
        self
    }

    /// The ACL of the znode. Default: [`Acl::open`].
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = Some(acl);
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
        Self { kind: CreateKind::Persistent, sequential: false, ..self }
    }

    fn call(self) -> Call<'c, Created> {
        let (client, timeout) = (self.client, self.timeout);
        let request = self.build(Request::Create2, Request::CreateContainer, Request::CreateTtl);
        let decode = decode!("create", DecodedReply { reply: Reply::Created2(path, stat), .. } => Created { path, stat });
        Call::new(client, request, decode).with_timeout(timeout)
    }

    /// The same, as an operation of a multi.
    pub(crate) fn into_op(self) -> Result<Op, Error> {
        self.build(Op::Create2, Op::CreateContainer, Op::CreateTtl)
    }

    /// The record, in the variant of its opcode.
    fn build<T>(
        self,
        plain: fn(records::Create) -> T,
        container: fn(records::Create) -> T,
        with_ttl: fn(records::CreateTtl) -> T,
    ) -> Result<T, Error> {
        let path = self.client.checked_path("create", self.path, self.sequential)?;
        let (data, acl) = (Some(self.data), Some(self.acl.unwrap_or_else(Acl::open)));
        let mode = match (self.kind, self.sequential) {
            (CreateKind::Persistent, false) => CreateMode::Persistent,
            (CreateKind::Persistent, true) => CreateMode::PersistentSequential,
            (CreateKind::Ephemeral, false) => CreateMode::Ephemeral,
            (CreateKind::Ephemeral, true) => CreateMode::EphemeralSequential,
            // The opcode makes it a container; the mode only decides about the number.
            (CreateKind::Container, false) => CreateMode::Container,
            (CreateKind::Container, true) => CreateMode::PersistentSequential,
            (CreateKind::Ttl(_), false) => CreateMode::PersistentWithTtl,
            (CreateKind::Ttl(_), true) => CreateMode::PersistentSequentialWithTtl,
        };
        let flags = mode.code();
        Ok(match self.kind {
            CreateKind::Persistent | CreateKind::Ephemeral => {
                plain(records::Create { path, data, acl, flags })
            }
            CreateKind::Container => container(records::Create { path, data, acl, flags }),
            CreateKind::Ttl(ttl) => {
                let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
                with_ttl(records::CreateTtl { path, data, acl, flags, ttl })
            }
        })
    }
}

sendable!(Create => Created);
