//! create, in all its modes.

use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::{self, Op};
use zoolet_proto::{Acl, CreateMode, Reply, Request, Stat};

use super::parents::CreateWithParents;
use super::{decode, sendable};
use crate::call::{Answer, Call};
use crate::client::Client;
use crate::error::Error;

/// What a create has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The path, with the number a sequential one was given.
    pub path: String,
    /// The `Stat` it was made with. Its `czxid` is the transaction that made it.
    pub stat: Stat,
}

/// A create that is not sent yet; from [`Client::create`].
#[derive(Debug, Clone)]
#[must_use = "a request is sent by `.await` or `.send()`"]
pub struct Create<'c> {
    client: &'c Client,
    path: String,
    data: Bytes,
    acl: Option<Vec<Acl>>,
    kind: Kind,
    sequential: bool,
    timeout: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Persistent,
    Ephemeral,
    Container,
    Ttl(Duration),
}

impl<'c> Create<'c> {
    pub(crate) fn new(client: &'c Client, path: String, data: Bytes) -> Self {
        Self { client, path, data, acl: None, kind: Kind::Persistent, sequential: false, timeout: None }
    }

    /// Makes a znode that goes with the session.
    pub fn ephemeral(mut self) -> Self {
        self.kind = Kind::Ephemeral;
        self
    }

    /// Appends the counter of the parent to the name, ten digits of it. The path may then end in a slash.
    pub fn sequential(mut self) -> Self {
        self.sequential = true;
        self
    }

    /// Makes a container: it goes some time after its last child.
    pub fn container(mut self) -> Self {
        self.kind = Kind::Container;
        self
    }

    /// Makes a znode that goes when it has no child and its data was not set for `ttl`, in whole milliseconds.
    /// Servers refuse it with `Unimplemented` unless they are configured for it.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.kind = Kind::Ttl(ttl);
        self
    }

    /// Who may do what. Default: [`Acl::open`].
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
        Self { kind: Kind::Persistent, sequential: false, ..self }
    }

    fn call(self) -> Call<'c, Created> {
        let (client, timeout) = (self.client, self.timeout);
        let request = self.into_record().map(|record| match record {
            Record::Plain(create) => Request::Create2(create),
            Record::Container(create) => Request::CreateContainer(create),
            Record::Ttl(create) => Request::CreateTtl(create),
        });
        let decode =
            decode!("create", Answer { reply: Reply::Created2(path, stat), .. } => Created { path, stat });
        Call::new(client, request, decode).with_timeout(timeout)
    }

    /// The same as a part of a multi.
    pub(crate) fn into_op(self) -> Result<Op, Error> {
        Ok(match self.into_record()? {
            Record::Plain(create) => Op::Create2(create),
            Record::Container(create) => Op::CreateContainer(create),
            Record::Ttl(create) => Op::CreateTtl(create),
        })
    }

    fn into_record(self) -> Result<Record, Error> {
        let path = self.client.checked_path("create", self.path, self.sequential)?;
        let (data, acl) = (Some(self.data), Some(self.acl.unwrap_or_else(Acl::open)));
        let mode = match (self.kind, self.sequential) {
            (Kind::Persistent, false) => CreateMode::Persistent,
            (Kind::Persistent, true) => CreateMode::PersistentSequential,
            (Kind::Ephemeral, false) => CreateMode::Ephemeral,
            (Kind::Ephemeral, true) => CreateMode::EphemeralSequential,
            // The opcode makes the container; the mode only says how it is named.
            (Kind::Container, false) => CreateMode::Container,
            (Kind::Container, true) => CreateMode::PersistentSequential,
            (Kind::Ttl(_), false) => CreateMode::PersistentWithTtl,
            (Kind::Ttl(_), true) => CreateMode::PersistentSequentialWithTtl,
        };
        let flags = mode.code();
        Ok(match self.kind {
            Kind::Persistent | Kind::Ephemeral => Record::Plain(records::Create { path, data, acl, flags }),
            Kind::Container => Record::Container(records::Create { path, data, acl, flags }),
            Kind::Ttl(ttl) => {
                let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
                Record::Ttl(records::CreateTtl { path, data, acl, flags, ttl })
            }
        })
    }
}

/// The three opcodes a create may travel under.
enum Record {
    Plain(records::Create),
    Container(records::Create),
    Ttl(records::CreateTtl),
}

sendable!(Create => Created);
