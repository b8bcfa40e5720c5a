//! reconfig, the change of an ensemble's membership.

use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::{Reply, Request, Stat, records};

use super::{decode, sendable};
use crate::call::Call;
use crate::client::Client;
use crate::command::DecodedReply;

/// A reconfig that is not sent yet; from [`Client::reconfig`].
///
/// Choose either [`joining`](Self::joining) and [`leaving`](Self::leaving), or [`members`](Self::members).
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let server = "server.4=zk4:2888:3888:participant;2181";
/// let (config, _stat) = zk.reconfig().joining(server).leaving("2").await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a request is sent by `.await` or `.send()`"]
pub struct Reconfig<'c> {
    client: &'c Client,
    record: records::Reconfig,
    timeout: Option<Duration>,
}

impl<'c> Reconfig<'c> {
    pub(crate) fn new(client: &'c Client) -> Self {
        // −1: whatever the present configuration is.
        let record = records::Reconfig { joining: None, leaving: None, new_members: None, config: -1 };
        Self { client, record, timeout: None }
    }

    /// Adds servers, or changes the addresses and roles of present ones: one or more lines of `zoo.cfg`, such as
    /// `server.4=zk4:2888:3888:participant;2181`, separated by commas.
    pub fn joining(mut self, servers: impl Into<String>) -> Self {
        self.record.joining = Some(servers.into());
        self
    }

    /// Removes servers: one or more ids, such as `2,5`.
    pub fn leaving(mut self, ids: impl Into<String>) -> Self {
        self.record.leaving = Some(ids.into());
        self
    }

    /// Replaces the whole membership, in the notation of [`joining`](Self::joining).
    pub fn members(mut self, servers: impl Into<String>) -> Self {
        self.record.new_members = Some(servers.into());
        self
    }

    /// Requires that the present configuration has this version, which its `version` line has in hexadecimal; otherwise
    /// the call fails with `BadVersion`. Default: any.
    pub fn from_config(mut self, version: u64) -> Self {
        self.record.config = i64::try_from(version).unwrap_or(i64::MAX);
        self
    }

    fn call(self) -> Call<'c, (Bytes, Stat)> {
        let decode = decode!("reconfig", DecodedReply { reply: Reply::Data(data, stat), .. } => {
            (data.unwrap_or_default(), stat)
        });
        Call::new(self.client, Ok(Request::Reconfig(self.record)), decode).with_timeout(self.timeout)
    }
}

sendable!(Reconfig => (Bytes, Stat));
