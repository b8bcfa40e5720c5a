//! The builders of requests that have options.

mod create;
mod delete_recursive;
mod parents;
mod read;
mod reconfig;
mod write;

pub use create::{Create, Created};
pub use delete_recursive::DeleteRecursive;
pub use parents::{CreateWithParents, MissingParents};
pub use read::{Exists, GetChildren, GetData};
pub use reconfig::Reconfig;
pub(crate) use write::version_field;
pub use write::{Delete, SetAcl, SetData};

/// Implements what every request has for a builder with a `call` method and a `timeout` field.
macro_rules! sendable {
    ($builder:ident => $output:ty) => {
        impl $builder<'_> {
            /// Fails if there is no reply within `timeout`; see [`Call::timeout`](crate::Call::timeout).
            pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
                self.timeout = Some(timeout);
                self
            }

            /// Sends the request now, without waiting; see [`Call::send`](crate::Call::send), also for
            /// [`QueueFull`](crate::Error::QueueFull).
            pub fn send(self) -> crate::ReplyFuture<$output> {
                self.call().send()
            }
        }

        impl std::future::IntoFuture for $builder<'_> {
            type Output = Result<$output, crate::Error>;
            type IntoFuture = crate::ReplyFuture<$output>;

            fn into_future(self) -> Self::IntoFuture {
                self.call().send_or_wait()
            }
        }
    };
}
pub(crate) use sendable;

/// Extracts what a call returns from its reply. Any other reply is a protocol error.
macro_rules! decode {
    ($operation:literal, $($pattern:pat => $value:expr),+ $(,)?) => {
        |outcome: crate::command::CallOutcome| match outcome? {
            $($pattern => Ok($value),)+
            #[allow(unreachable_patterns, reason = "some calls accept any reply")]
            _ => Err(crate::Error::Protocol(crate::context::ErrorContext::local($operation, ""))),
        }
    };
}
pub(crate) use decode;
