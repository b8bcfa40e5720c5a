//! exists, getData and getChildren, each with or without a one-shot watch.

use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::{NameList, Reply, Request, Stat, records};

use super::{decode, sendable};
use crate::call::{Call, Decode};
use crate::client::Client;
use crate::command::{DecodedReply, ReplyExtra};
use crate::context::ErrorContext;
use crate::error::Error;
use crate::watch::{Watch, WatchHandle};

/// Defines a builder of a read: its operation, its request with the record in it, and its result without a watch.
macro_rules! read {
    ($(#[$meta:meta])* $builder:ident = $operation:literal, $request:ident($record:ident) => $output:ty) => {
        $(#[$meta])*
        #[derive(Debug)]
        #[must_use = "a request is sent by `.await` or `.send()`"]
        pub struct $builder<'c> {
            client: &'c Client,
            path: String,
            timeout: Option<Duration>,
        }

        impl<'c> $builder<'c> {
            pub(crate) fn new(client: &'c Client, path: String) -> Self {
                Self { client, path, timeout: None }
            }

            fn request<T>(self, watch: bool, decode: Decode<T>) -> Call<'c, T> {
                let request = |path| Request::$request(records::$record { path, watch });
                self.client.call_on($operation, self.path, request, decode).with_timeout(self.timeout)
            }
        }

        sendable!($builder => $output);
    };
}

read! {
    /// An exists that is not sent yet; from [`Client::exists`].
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// let (stat, watch) = zk.exists("/leader").watch().await?;
    /// if stat.is_none() {
    ///     watch.changed().await?;
    /// }
    /// # Ok(()) }
    /// ```
    Exists = "exists", Exists(Exists) => Option<Stat>
}

impl<'c> Exists<'c> {
    /// Also sets a watch on creation, deletion and changes of data, and returns it. The watch is set whether or not the
    /// znode exists.
    pub fn watch(self) -> Call<'c, (Option<Stat>, Watch)> {
        let decode = decode!("exists",
            DecodedReply { reply: Reply::Stat(stat), extra: Some(extra) } => (Some(stat), one_shot(*extra)?),
            DecodedReply { reply: Reply::Empty, extra: Some(extra) } => (None, one_shot(*extra)?),
        );
        self.request(true, decode)
    }

    fn call(self) -> Call<'c, Option<Stat>> {
        let decode = decode!("exists",
            DecodedReply { reply: Reply::Stat(stat), .. } => Some(stat),
            DecodedReply { reply: Reply::Empty, .. } => None,
        );
        self.request(false, decode)
    }
}

read! {
    /// A getData that is not sent yet; from [`Client::get_data`].
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// let (data, stat) = zk.get_data("/config").await?;
    /// let (newer, stat, watch) = zk.get_data("/config").watch().await?;
    /// # Ok(()) }
    /// ```
    GetData = "getData", GetData(GetData) => (Bytes, Stat)
}

impl<'c> GetData<'c> {
    /// Also sets a watch on changes of data and deletion, and returns it. If the call fails, no watch is set.
    pub fn watch(self) -> Call<'c, (Bytes, Stat, Watch)> {
        let decode = decode!("getData",
            DecodedReply { reply: Reply::Data(data, stat), extra: Some(extra) } => {
                (data.unwrap_or_default(), stat, one_shot(*extra)?)
            }
        );
        self.request(true, decode)
    }

    fn call(self) -> Call<'c, (Bytes, Stat)> {
        let decode = decode!("getData",
            DecodedReply { reply: Reply::Data(data, stat), .. } => (data.unwrap_or_default(), stat),
        );
        self.request(false, decode)
    }
}

read! {
    /// A getChildren that is not sent yet; from [`Client::get_children`].
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// let (names, _stat, watch) = zk.get_children("/workers").watch().await?;
    /// println!("{} workers", names.len());
    /// watch.changed().await?;
    /// # Ok(()) }
    /// ```
    GetChildren = "getChildren", GetChildren2(GetChildren) => (Vec<String>, Stat)
}

impl<'c> GetChildren<'c> {
    /// Also sets a watch on the creation and deletion of children and on the deletion of the znode itself, and returns it.
    /// If the call fails, no watch is set.
    pub fn watch(self) -> Call<'c, (Vec<String>, Stat, Watch)> {
        let decode = decode!("getChildren",
            DecodedReply { reply: Reply::Children2(names, stat), extra: Some(extra) } => {
                (strings(&names), stat, one_shot(*extra)?)
            }
        );
        self.request(true, decode)
    }

    fn call(self) -> Call<'c, (Vec<String>, Stat)> {
        let decode = decode!("getChildren",
            DecodedReply { reply: Reply::Children2(names, stat), .. } => (strings(&names), stat),
        );
        self.request(false, decode)
    }
}

fn strings(names: &NameList) -> Vec<String> {
    let mut strings = Vec::with_capacity(names.len());
    strings.extend(names.iter());
    strings
}

fn one_shot(extra: ReplyExtra) -> Result<Watch, Error> {
    match extra {
        ReplyExtra::Watch(WatchHandle::OneShot(watch)) => Ok(watch),
        _ => Err(Error::Protocol(ErrorContext::local("watch", ""))),
    }
}
