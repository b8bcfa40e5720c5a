//! Several operations in one request: writes that are executed all or not at all, and independent reads.

use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::{self, Op, OpResult};
use zoolet_proto::{ErrorCode, Reply, Request, Stat};

use crate::call::Call;
use crate::client::Client;
use crate::command::DecodedReply;
use crate::context::ErrorContext;
use crate::error::Error;
use crate::op::{Create, Delete, SetData, decode, sendable, version_field};

/// The result of one operation of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MultiOutcome {
    /// A create.
    Created {
        /// The path, including the number of a sequential znode.
        path: String,
        /// Its `Stat` after this operation; `None` from servers before 3.9.
        stat: Option<Stat>,
    },
    /// A delete.
    Deleted,
    /// A setData, with the `Stat` after this operation.
    DataSet(Stat),
    /// A check.
    Checked,
}

impl MultiOutcome {
    /// The path of a created znode.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Created { path, .. } => Some(path),
            Self::Deleted | Self::DataSet(_) | Self::Checked => None,
        }
    }

    /// The `Stat` of a create or setData.
    pub fn stat(&self) -> Option<&Stat> {
        match self {
            Self::Created { stat, .. } => stat.as_ref(),
            Self::DataSet(stat) => Some(stat),
            Self::Deleted | Self::Checked => None,
        }
    }
}

/// Writes that are not sent yet and are executed all or not at all; from [`Client::multi`].
///
/// Each sees the effects of those before it. Together they are one transaction: no reader sees a part of them.
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let outcomes = zk.multi().check("/lock", 3).create("/jobs/1", "payload").delete("/idle").commit().await?;
/// assert_eq!(outcomes[1].path(), Some("/jobs/1"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a multi is sent by `.commit()`, `.await` or `.send()`"]
pub struct Multi<'c> {
    client: &'c Client,
    ops: Result<Vec<Op>, Error>,
    timeout: Option<Duration>,
}

impl<'c> Multi<'c> {
    pub(crate) fn new(client: &'c Client) -> Self {
        Self { client, ops: Ok(Vec::new()), timeout: None }
    }

    /// Creates a persistent znode that is open to everybody. For other options, [`add`](Multi::add) a create.
    pub fn create(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        let create = self.client.create(path, data);
        self.add(create)
    }

    /// Deletes a znode, whatever its version.
    pub fn delete(self, path: impl Into<String>) -> Self {
        let delete = self.client.delete(path);
        self.add(delete)
    }

    /// Replaces data, whatever its version.
    pub fn set_data(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        let set = self.client.set_data(path, data);
        self.add(set)
    }

    /// Requires that the data of the znode has this version; `None` only requires that the znode exists.
    pub fn check(self, path: impl Into<String>, version: impl Into<Option<i32>>) -> Self {
        let path = path.into();
        let check = version_field("check", &path, version.into()).and_then(|version| {
            let path = self.client.checked_path("check", path, false)?;
            Ok(Op::Check(records::CheckVersion { path, version }))
        });
        self.push(check)
    }

    /// Adds a create, delete or setData with its options. Its timeout is ignored.
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// zk.multi().add(zk.create("/jobs/job-", "a").ephemeral().sequential()).delete("/idle").commit().await?;
    /// # Ok(()) }
    /// ```
    #[expect(clippy::should_implement_trait, reason = "it adds to a list")]
    pub fn add(self, write: impl Into<MultiWrite>) -> Self {
        self.push(write.into().0)
    }

    fn push(self, op: Result<Op, Error>) -> Self {
        Self { ops: with(self.ops, op), ..self }
    }

    /// Sends the multi and returns one outcome per operation, in order. The same as `.await`.
    ///
    /// # Errors
    /// `MultiRefused` names the operation that was refused; nothing was executed. After `ConnectionLoss` and `Timeout` the
    /// outcome of the whole is unknown.
    /// # Ordering and cancel safety
    /// Sent at the first poll. Dropping the future does not cancel the request.
    pub async fn commit(self) -> Result<Vec<MultiOutcome>, Error> {
        self.await
    }

    fn call(self) -> Call<'c, Vec<MultiOutcome>> {
        let decode = decode!("multi", DecodedReply { reply: Reply::Multi(results), .. } => {
            results.into_iter().map(outcome).collect::<Result<_, _>>()?
        });
        Call::new(self.client, self.ops.map(Request::Multi), decode).with_timeout(self.timeout)
    }
}

sendable!(Multi => Vec<MultiOutcome>);

/// The list with one more operation, or the first error.
fn with(ops: Result<Vec<Op>, Error>, op: Result<Op, Error>) -> Result<Vec<Op>, Error> {
    let mut ops = ops?;
    ops.push(op?);
    Ok(ops)
}

fn outcome(result: OpResult) -> Result<MultiOutcome, Error> {
    Ok(match result {
        OpResult::Create(path) => MultiOutcome::Created { path, stat: None },
        OpResult::Create2(path, stat) => MultiOutcome::Created { path, stat: Some(stat) },
        OpResult::Delete => MultiOutcome::Deleted,
        OpResult::SetData(stat) => MultiOutcome::DataSet(stat),
        OpResult::Check => MultiOutcome::Checked,
        OpResult::GetData(..) | OpResult::GetChildren(_) | OpResult::Error(_) => {
            return Err(Error::Protocol(ErrorContext::local("multi", "")));
        }
    })
}

/// An operation for [`Multi::add`]: a [`Create`], [`Delete`] or [`SetData`].
#[derive(Debug, Clone)]
pub struct MultiWrite(Result<Op, Error>);

impl From<Create<'_>> for MultiWrite {
    fn from(create: Create<'_>) -> Self {
        Self(create.into_op())
    }
}

impl From<Delete<'_>> for MultiWrite {
    fn from(delete: Delete<'_>) -> Self {
        Self(delete.into_record().map(Op::Delete))
    }
}

impl From<SetData<'_>> for MultiWrite {
    fn from(set: SetData<'_>) -> Self {
        Self(set.into_record().map(Op::SetData))
    }
}

/// The result of one operation of a multiRead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadOutcome {
    /// A getData. Null data reads as empty.
    Data(Bytes, Stat),
    /// A getChildren.
    Children(Vec<String>),
}

/// Reads that are not sent yet; from [`Client::multi_read`]. Each succeeds or fails independently.
///
/// ```no_run
/// # use zoolet_client::ReadOutcome;
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let outcomes = zk.multi_read().get_data("/a").get_children("/b").await?;
/// if let Ok(ReadOutcome::Data(data, _stat)) = &outcomes[0] {
///     println!("{} bytes", data.len());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a request is sent by `.await` or `.send()`"]
pub struct MultiRead<'c> {
    client: &'c Client,
    ops: Result<Vec<Op>, Error>,
    timeout: Option<Duration>,
}

impl<'c> MultiRead<'c> {
    pub(crate) fn new(client: &'c Client) -> Self {
        Self { client, ops: Ok(Vec::new()), timeout: None }
    }

    /// Reads the data of a znode.
    pub fn get_data(self, path: impl Into<String>) -> Self {
        let path = self.client.checked_path("getData", path.into(), false);
        self.push(path.map(|path| Op::GetData(records::GetData { path, watch: false })))
    }

    /// Lists the children of a znode.
    pub fn get_children(self, path: impl Into<String>) -> Self {
        let path = self.client.checked_path("getChildren", path.into(), false);
        self.push(path.map(|path| Op::GetChildren(records::GetChildren { path, watch: false })))
    }

    fn push(self, op: Result<Op, Error>) -> Self {
        Self { ops: with(self.ops, op), ..self }
    }

    fn call(self) -> Call<'c, Vec<Result<ReadOutcome, ErrorCode>>> {
        let decode = decode!("multiRead", DecodedReply { reply: Reply::Multi(results), .. } => {
            results.into_iter().map(read_outcome).collect()
        });
        Call::new(self.client, self.ops.map(Request::MultiRead), decode).with_timeout(self.timeout)
    }
}

sendable!(MultiRead => Vec<Result<ReadOutcome, ErrorCode>>);

fn read_outcome(result: OpResult) -> Result<ReadOutcome, ErrorCode> {
    match result {
        OpResult::GetData(data, stat) => Ok(ReadOutcome::Data(data.unwrap_or_default(), stat)),
        OpResult::GetChildren(names) => Ok(ReadOutcome::Children(names.iter().collect())),
        OpResult::Error(Some(code)) => Err(code),
        _ => Err(ErrorCode::MarshallingError),
    }
}
