//! delete, setData and setACL.

use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::{self, Op};
use zoolet_proto::{Acl, Reply, Request, Stat};

use super::{decode, sendable};
use crate::call::{Answer, Call};
use crate::client::Client;
use crate::error::Error;

/// The version that matches every version.
const ANY: i32 = -1;

/// A delete that is not sent yet; from [`Client::delete`].
#[derive(Debug)]
#[must_use = "a request is sent by `.await` or `.send()`"]
pub struct Delete<'c> {
    client: &'c Client,
    path: String,
    version: i32,
    timeout: Option<Duration>,
}

impl<'c> Delete<'c> {
    pub(crate) fn new(client: &'c Client, path: String) -> Self {
        Self { client, path, version: ANY, timeout: None }
    }

    /// Deletes only this version of the data; otherwise the call fails with `BadVersion`. Default: any.
    pub fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    fn call(self) -> Call<'c, ()> {
        let (client, timeout) = (self.client, self.timeout);
        let decode = decode!("delete", Answer { reply: Reply::Empty, .. } => ());
        Call::new(client, self.into_record().map(Request::Delete), decode).with_timeout(timeout)
    }

    /// The same as a part of a multi.
    pub(crate) fn into_op(self) -> Result<Op, Error> {
        self.into_record().map(Op::Delete)
    }

    fn into_record(self) -> Result<records::Delete, Error> {
        let path = self.client.checked_path("delete", self.path, false)?;
        Ok(records::Delete { path, version: self.version })
    }
}

sendable!(Delete => ());

/// A setData that is not sent yet; from [`Client::set_data`].
#[derive(Debug)]
#[must_use = "a request is sent by `.await` or `.send()`"]
pub struct SetData<'c> {
    client: &'c Client,
    path: String,
    data: Bytes,
    version: i32,
    timeout: Option<Duration>,
}

impl<'c> SetData<'c> {
    pub(crate) fn new(client: &'c Client, path: String, data: Bytes) -> Self {
        Self { client, path, data, version: ANY, timeout: None }
    }

    /// Replaces only this version of the data; otherwise the call fails with `BadVersion`. Default: any.
    pub fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    fn call(self) -> Call<'c, Stat> {
        let (client, timeout) = (self.client, self.timeout);
        let decode = decode!("setData", Answer { reply: Reply::Stat(stat), .. } => stat);
        Call::new(client, self.into_record().map(Request::SetData), decode).with_timeout(timeout)
    }

    /// The same as a part of a multi.
    pub(crate) fn into_op(self) -> Result<Op, Error> {
        self.into_record().map(Op::SetData)
    }

    fn into_record(self) -> Result<records::SetData, Error> {
        let path = self.client.checked_path("setData", self.path, false)?;
        Ok(records::SetData { path, data: Some(self.data), version: self.version })
    }
}

sendable!(SetData => Stat);

/// A setACL that is not sent yet; from [`Client::set_acl`].
#[derive(Debug)]
#[must_use = "a request is sent by `.await` or `.send()`"]
pub struct SetAcl<'c> {
    client: &'c Client,
    path: String,
    acl: Vec<Acl>,
    version: i32,
    timeout: Option<Duration>,
}

impl<'c> SetAcl<'c> {
    pub(crate) fn new(client: &'c Client, path: String, acl: Vec<Acl>) -> Self {
        Self { client, path, acl, version: ANY, timeout: None }
    }

    /// Replaces only this version of the ACL, the `aversion` of [`Stat`]; otherwise the call fails with `BadVersion`.
    /// Default: any.
    pub fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    fn call(self) -> Call<'c, Stat> {
        let (client, timeout) = (self.client, self.timeout);
        let decode = decode!("setACL", Answer { reply: Reply::Stat(stat), .. } => stat);
        Call::new(client, self.into_record().map(Request::SetAcl), decode).with_timeout(timeout)
    }

    fn into_record(self) -> Result<records::SetAcl, Error> {
        let path = self.client.checked_path("setACL", self.path, false)?;
        Ok(records::SetAcl { path, acl: Some(self.acl), version: self.version })
    }
}

sendable!(SetAcl => Stat);
