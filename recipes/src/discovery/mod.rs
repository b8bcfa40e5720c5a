//! Service discovery: [`Registration`] says where an instance of a service is, [`Services`] finds all of them, and a
//! [`Selector`] chooses one for each call.
//!
//! The layout is that of Curator's x-discovery, `<base>/<service>/<id>`, and so are the bytes ([`CuratorFormat`]); finagle's ServerSets
//! ([`ServerSetFormat`]) and one's own are other [formats](InstanceFormat).

mod error;
mod format;
mod instance;
mod registration;
mod selector;
mod server_set;
mod services;
mod uri_spec;

pub use error::DiscoveryError;
pub use format::{CuratorFormat, FormatError, InstanceFormat};
pub use instance::{Instance, ServiceType};
pub use registration::{Registration, RegistrationBuilder};
pub use selector::{Selected, Selector, SelectorBuilder, Strategy};
pub use server_set::{ServerSetEndpoint, ServerSetFormat, ServerSetMember};
pub use services::{InstanceCache, ServiceInstances, Services, ServicesBuilder};
pub use uri_spec::UriSpec;
