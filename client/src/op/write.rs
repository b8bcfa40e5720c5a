//! delete, setData and setACL.

use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::{Acl, ErrorCode, Reply, Request, Stat, records};

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

/// Defines a builder of a write that may require a version: its operation, its field besides path and version with how the
/// record has it, and what it returns of the reply.
macro_rules! versioned_write {
    (
        $(#[$meta:meta])*
        $builder:ident($($field:ident: $kind:ty => $wire:expr)?) = $operation:literal, $reply:pat => $value:expr, $output:ty;
        $(#[$version_meta:meta])*
        version
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        #[must_use = "a request is sent by `.await` or `.send()`"]
        pub struct $builder<'c> {
            client: &'c Client,
            path: String,
            $($field: $kind,)?
            version: Option<i32>,
            timeout: Option<Duration>,
        }

        impl<'c> $builder<'c> {
            pub(crate) fn new(client: &'c Client, path: String $(, $field: $kind)?) -> Self {
                Self { client, path, $($field,)? version: None, timeout: None }
            }

            $(#[$version_meta])*
            pub fn version(mut self, version: impl Into<Option<i32>>) -> Self {
                self.version = version.into();
                self
            }

            /// The record, for a request or for an operation of a multi.
            pub(crate) fn into_record(self) -> Result<records::$builder, Error> {
                let version = version_field($operation, &self.path, self.version)?;
                let path = self.client.checked_path($operation, self.path, false)?;
                Ok(records::$builder { path, $($field: ($wire)(self.$field),)? version })
            }

            fn call(self) -> Call<'c, $output> {
                let (client, timeout) = (self.client, self.timeout);
                let decode = decode!($operation, DecodedReply { reply: $reply, .. } => $value);
                Call::new(client, self.into_record().map(Request::$builder), decode).with_timeout(timeout)
            }
        }

        sendable!($builder => $output);
    };
}

versioned_write! {
    /// A delete that is not sent yet; from [`Client::delete`].
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// zk.delete("/config").version(3).await?;
    /// # Ok(()) }
    /// ```
    Delete() = "delete", Reply::Empty => (), ();
    /// Deletes the znode only if its data has this [`version`](Stat::version); otherwise the call fails with
    /// `BadVersion`. Default: `None`, which is any version.
    version
}

versioned_write! {
    /// A setData that is not sent yet; from [`Client::set_data`].
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// let stat = zk.set_data("/config", "new").version(3).await?;
    /// assert_eq!(stat.version, 4);
    /// # Ok(()) }
    /// ```
    SetData(data: Bytes => Some) = "setData", Reply::Stat(stat) => stat, Stat;
    /// Replaces the data only if it has this [`version`](Stat::version); otherwise the call fails with `BadVersion`.
    /// Default: `None`, which is any version.
    version
}

versioned_write! {
    /// A setACL that is not sent yet; from [`Client::set_acl`].
    ///
    /// ```no_run
    /// # use zoolet_client::{Acl, Perms};
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// zk.set_acl("/config", vec![Acl::new(Perms::READ, "world", "anyone")]).version(0).await?;
    /// # Ok(()) }
    /// ```
    SetAcl(acl: Vec<Acl> => |acl: Vec<Acl>| Some(acl.into())) = "setACL", Reply::Stat(stat) => stat, Stat;
    /// Replaces the ACL only if it has this version, the [`aversion`](Stat::aversion); otherwise the call fails with
    /// `BadVersion`. Default: `None`, which is any version.
    version
}
