//! delete, setData and setACL.

use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::{self, Op};
use zoolet_proto::{Acl, ErrorCode, Reply, Request, Stat};

use super::{decode, sendable};
use crate::call::Call;
use crate::client::Client;
use crate::command::DecodedReply;
use crate::context::ErrorContext;
use crate::error::Error;

/// The version field of a request, in which −1 matches every version. No znode has version −1: as an expected version it is
/// a mistake, which must not turn a conditional write into an unconditional one.
pub(crate) fn version_field(
    operation: &'static str,
    path: &str,
    expected: Option<i32>,
) -> Result<i32, Error> {
    match expected {
        Some(-1) => {
            let context = ErrorContext::local(operation, path).hint("no znode has version -1");
            Err(Error::Refused { context, code: ErrorCode::BadVersion })
        }
        expected => Ok(expected.unwrap_or(-1)),
    }
}

/// A delete that is not sent yet; from [`Client::delete`].
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// zk.delete("/config").version(3).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a request is sent by `.await` or `.send()`"]
pub struct Delete<'c> {
    client: &'c Client,
    path: String,
    version: Option<i32>,
    timeout: Option<Duration>,
}

impl<'c> Delete<'c> {
    pub(crate) fn new(client: &'c Client, path: String) -> Self {
        Self { client, path, version: None, timeout: None }
    }

    /// Deletes the znode only if its data has this [`version`](Stat::version); otherwise the call fails with
    /// `BadVersion`. Default: `None`, which is any version.
    pub fn version(mut self, version: impl Into<Option<i32>>) -> Self {
        self.version = version.into();
        self
    }

    fn call(self) -> Call<'c, ()> {
        let (client, timeout) = (self.client, self.timeout);
        let decode = decode!("delete", DecodedReply { reply: Reply::Empty, .. } => ());
        Call::new(client, self.into_record().map(Request::Delete), decode).with_timeout(timeout)
    }

    /// The same, as an operation of a multi.
    pub(crate) fn into_op(self) -> Result<Op, Error> {
        self.into_record().map(Op::Delete)
    }

    fn into_record(self) -> Result<records::Delete, Error> {
        let version = version_field("delete", &self.path, self.version)?;
        let path = self.client.checked_path("delete", self.path, false)?;
        Ok(records::Delete { path, version })
    }
}

sendable!(Delete => ());

/// A setData that is not sent yet; from [`Client::set_data`].
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let stat = zk.set_data("/config", "new").version(3).await?;
/// assert_eq!(stat.version, 4);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a request is sent by `.await` or `.send()`"]
pub struct SetData<'c> {
    client: &'c Client,
    path: String,
    data: Bytes,
    version: Option<i32>,
    timeout: Option<Duration>,
}

impl<'c> SetData<'c> {
    pub(crate) fn new(client: &'c Client, path: String, data: Bytes) -> Self {
        Self { client, path, data, version: None, timeout: None }
    }

    /// Replaces the data only if it has this [`version`](Stat::version); otherwise the call fails with `BadVersion`.
    /// Default: `None`, which is any version.
    pub fn version(mut self, version: impl Into<Option<i32>>) -> Self {
        self.version = version.into();
        self
    }

    fn call(self) -> Call<'c, Stat> {
        let (client, timeout) = (self.client, self.timeout);
        let decode = decode!("setData", DecodedReply { reply: Reply::Stat(stat), .. } => stat);
        Call::new(client, self.into_record().map(Request::SetData), decode).with_timeout(timeout)
    }

    /// The same, as an operation of a multi.
    pub(crate) fn into_op(self) -> Result<Op, Error> {
        self.into_record().map(Op::SetData)
    }

    fn into_record(self) -> Result<records::SetData, Error> {
        let version = version_field("setData", &self.path, self.version)?;
        let path = self.client.checked_path("setData", self.path, false)?;
        Ok(records::SetData { path, data: Some(self.data), version })
    }
}

sendable!(SetData => Stat);

/// A setACL that is not sent yet; from [`Client::set_acl`].
///
/// ```no_run
/// # use zoolet_client::{Acl, Perms};
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// zk.set_acl("/config", vec![Acl::new(Perms::READ, "world", "anyone")]).version(0).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a request is sent by `.await` or `.send()`"]
pub struct SetAcl<'c> {
    client: &'c Client,
    path: String,
    acl: Vec<Acl>,
    version: Option<i32>,
    timeout: Option<Duration>,
}

impl<'c> SetAcl<'c> {
    pub(crate) fn new(client: &'c Client, path: String, acl: Vec<Acl>) -> Self {
        Self { client, path, acl, version: None, timeout: None }
    }

    /// Replaces the ACL only if it has this version, the [`aversion`](Stat::aversion); otherwise the call fails with
    /// `BadVersion`. Default: `None`, which is any version.
    pub fn version(mut self, version: impl Into<Option<i32>>) -> Self {
        self.version = version.into();
        self
    }

    fn call(self) -> Call<'c, Stat> {
        let (client, timeout) = (self.client, self.timeout);
        let decode = decode!("setACL", DecodedReply { reply: Reply::Stat(stat), .. } => stat);
        Call::new(client, self.into_record().map(Request::SetAcl), decode).with_timeout(timeout)
    }

    fn into_record(self) -> Result<records::SetAcl, Error> {
        let version = version_field("setACL", &self.path, self.version)?;
        let path = self.client.checked_path("setACL", self.path, false)?;
        Ok(records::SetAcl { path, acl: Some(self.acl.into()), version })
    }
}

sendable!(SetAcl => Stat);
