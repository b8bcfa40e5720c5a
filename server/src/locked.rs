//! [`locked`]: a lock that outlasts a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also if a thread has panicked while it had it. Only a turn and a stream can: the one stops the server, whose state
/// can then only be read, and the other ends its connection. A guard never lives over an await.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
