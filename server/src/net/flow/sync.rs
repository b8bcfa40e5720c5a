//! The lock and the atomics of an [`Outbox`](super::outbox::Outbox). Its model test puts others in their place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};
pub(crate) use std::sync::{Mutex, MutexGuard};
