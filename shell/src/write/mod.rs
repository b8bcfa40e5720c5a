//! Commands that write.

pub(crate) mod acl;
pub(crate) mod bench;
pub(crate) mod data;
pub(crate) mod edit;
pub(crate) mod multi;
pub(crate) mod quota;
pub(crate) mod remove;
