//! [`locked`]: a lock that outlasts a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also if a thread has panicked while it had it: every change under the locks of this crate and of the recipes
/// leaves their data consistent, at any place where foreign code may panic.
pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
