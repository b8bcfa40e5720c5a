//! Builders for the requests that have something to choose.

mod create;
mod parents;
mod read;
mod reconfig;
mod write;

pub use create::{Create, Created};
pub use parents::{CreateWithParents, MissingParents};
pub use read::{Exists, GetChildren, GetData};
pub use reconfig::Reconfig;
pub(crate) use write::version_field;
pub use write::{Delete, SetAcl, SetData};

/// Gives a builder with a `call` method and a `timeout` field what every request has.
macro_rules! sendable {
    ($builder:ident => $output:ty) => {
        impl $builder<'_> {
            /// Gives up after `timeout`; see [`Call::timeout`](crate::Call::timeout).
            pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
                self.timeout = Some(timeout);
                self
            }

            /// Sends the request now, without waiting; see [`Call::send`](crate::Call::send).
            pub fn send(self) -> crate::Reply<$output> {
                self.call().send()
            }
        }

        impl std::future::IntoFuture for $builder<'_> {
            type Output = Result<$output, crate::Error>;
            type IntoFuture = crate::Reply<$output>;

            fn into_future(self) -> Self::IntoFuture {
                self.send()
            }
        }
    };
}
pub(crate) use sendable;

/// Gives back the parts of the reply that a call expects; any other reply is none to it.
macro_rules! decode {
    ($operation:literal, $($pattern:pat => $value:expr),+ $(,)?) => {
        |outcome: crate::call::Outcome| match outcome? {
            $($pattern => Ok($value),)+
            #[allow(unreachable_patterns, reason = "some calls take whatever comes")]
            _ => Err(crate::Error::Protocol(crate::context::ErrorContext::local($operation, ""))),
        }
    };
}
pub(crate) use decode;
