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
use crate::watch::Watch;

/// Defines a builder of a read: its operation, its request with the record in it, and its result for each reply, to which a
/// watch is added.
macro_rules! read {
    (
        $(#[$meta:meta])*
        $builder:ident = $operation:literal, $request:ident($record:ident) => $output:ty, $watched:ty
            { $($reply:pat => ($($value:expr),+)),+ $(,)? }
        $(#[$watch_meta:meta])*
        watch
    ) => {
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

            $(#[$watch_meta])*
            pub fn watch(self) -> Call<'c, $watched> {
                let decode = decode!($operation,
                    $(DecodedReply { reply: $reply, extra: Some(extra) } => ($($value,)+ one_shot(*extra)?)),+
                );
                self.request(true, decode)
            }

            fn call(self) -> Call<'c, $output> {
                let decode = decode!($operation, $(DecodedReply { reply: $reply, .. } => ($($value),+)),+);
                self.request(false, decode)
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
    Exists = "exists", Exists(Exists) => Option<Stat>, (Option<Stat>, Watch) {
        Reply::Stat(stat) => (Some(stat)),
        Reply::Empty => (None),
    }
    /// Also sets a watch on creation, deletion and changes of data, and returns it. The watch is set whether or not the
    /// znode exists.
    watch
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
    GetData = "getData", GetData(GetData) => (Bytes, Stat), (Bytes, Stat, Watch) {
        Reply::Data(data, stat) => (data.unwrap_or_default(), stat),
    }
    /// Also sets a watch on changes of data and deletion, and returns it. If the call fails, no watch is set.
    watch
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
    GetChildren = "getChildren", GetChildren2(GetChildren) => (Vec<String>, Stat), (Vec<String>, Stat, Watch) {
        Reply::Children2(names, stat) => (strings(&names), stat),
    }
    /// Also sets a watch on the creation and deletion of children and on the deletion of the znode itself, and returns it.
    /// If the call fails, no watch is set.
    watch
}

fn strings(names: &NameList) -> Vec<String> {
    let mut strings = Vec::with_capacity(names.len());
    strings.extend(names.iter());
    strings
}

fn one_shot(extra: ReplyExtra) -> Result<Watch, Error> {
    match extra {
        ReplyExtra::Watch(watch) => Ok(watch),
        _ => Err(Error::Protocol(ErrorContext::local("watch", ""))),
    }
}
