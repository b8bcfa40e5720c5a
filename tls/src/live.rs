//! A configuration that follows its files.

use std::fmt;
use std::fs;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::error::TlsError;

/// How long files are taken to be unchanged after a look at them.
const LOOK: Duration = Duration::from_secs(1);

/// Settings from which a configuration of rustls is made.
pub trait TlsSettings: Clone + Send + Sync + 'static {
    /// The configuration.
    type Config: Send + Sync + 'static;

    /// Reads all files. Blocks.
    ///
    /// # Errors
    /// If a file is missing or invalid.
    fn load(&self) -> Result<Arc<Self::Config>, TlsError>;

    /// The files that are read.
    fn files(&self) -> Vec<PathBuf>;
}

/// A configuration that is made anew when its files have changed, without a restart.
///
/// Each use looks at the files, at most once a second. If they cannot be loaded, the configuration stays as it was, one line of the
/// log says why, and they are tried again at the next look. Connections that exist are not touched.
pub struct LiveTls<S: TlsSettings> {
    settings: S,
    /// Held while files are read, so that what was read last is what stays.
    reading: Mutex<()>,
    state: Mutex<LiveState<S::Config>>,
}

struct LiveState<C> {
    config: Arc<C>,
    /// The files that it is made of.
    stamps: Vec<Stamp>,
    /// Files that could not be loaded, and why, as the log says.
    warned: Option<(Vec<Stamp>, TlsError)>,
    /// When the files were last looked at.
    looked: Instant,
}

/// What shows that a file has changed; `None` if it is not there.
type Stamp = Option<(SystemTime, u64)>;

impl<S: TlsSettings> LiveTls<S> {
    /// Reads all files. Blocks.
    ///
    /// # Errors
    /// If a file is missing or invalid.
    pub fn load(settings: S) -> Result<Arc<Self>, TlsError> {
        let stamps = stamps(&settings.files());
        let state = LiveState { config: settings.load()?, stamps, warned: None, looked: Instant::now() };
        Ok(Arc::new(Self { settings, reading: Mutex::new(()), state: Mutex::new(state) }))
    }

    /// As [`load`](LiveTls::load), without blocking: it may derive a key from a password, which takes a while.
    ///
    /// # Errors
    /// If a file is missing or invalid, or the runtime is shut down.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn open(settings: S) -> Result<Arc<Self>, TlsError> {
        unblocked(&Handle::current(), || Self::load(settings)).await
    }

    /// The settings.
    pub fn settings(&self) -> &S {
        &self.settings
    }

    /// The configuration for a new connection.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn current(self: &Arc<Self>) -> Arc<S::Config> {
        let now = Instant::now();
        let is_due = {
            let mut state = self.lock();
            let is_due = now.saturating_duration_since(state.looked) >= LOOK;
            if is_due {
                state.looked = now;
            }
            is_due
        };
        if is_due {
            let this = Arc::clone(self);
            // The outcome is in the log.
            let _ = spawn_blocking(move || this.follow()).await;
        }
        Arc::clone(&self.lock().config)
    }

    /// Loads the files again, also if they look unchanged. Blocks.
    ///
    /// # Errors
    /// If a file is missing or invalid; then the configuration stays as it was.
    pub fn reload(&self) -> Result<(), TlsError> {
        let _reading = self.reading.lock();
        self.read(stamps(&self.settings.files()))
    }

    /// Loads the files. Their stamps are from before that: a change meanwhile is found at the next look. What has failed is not noted,
    /// as the next try may succeed with the same files.
    fn read(&self, stamps: Vec<Stamp>) -> Result<(), TlsError> {
        let config = self.settings.load()?;
        let mut state = self.lock();
        *state = LiveState { config, stamps, warned: None, looked: state.looked };
        tracing::info!("TLS: new connections use the files as they are now");
        Ok(())
    }

    /// As [`reload`](LiveTls::reload), in a runtime and without blocking.
    ///
    /// # Errors
    /// If a file is missing or invalid, or the runtime is shut down; then the configuration stays as it was.
    ///
    /// # Cancel safety
    /// The files are read even if the future is dropped.
    pub async fn reload_in(self: &Arc<Self>, runtime: &Handle) -> Result<(), TlsError> {
        let this = Arc::clone(self);
        unblocked(runtime, move || this.reload()).await
    }

    /// Loads the files again if they have changed.
    fn follow(&self) {
        let _reading = match self.reading.try_lock() {
            // Looks would add up if loading takes longer than the time between two of them.
            Err(TryLockError::WouldBlock) => return,
            reading => reading,
        };
        let stamps = stamps(&self.settings.files());
        if self.lock().stamps == stamps {
            return;
        }
        let Err(error) = self.read(stamps.clone()) else { return };
        let warned = Some((stamps, error.clone()));
        if self.lock().warned != warned {
            self.lock().warned = warned;
            tracing::warn!(%error, "TLS: cannot use the changed files; new connections use what was there before");
        }
    }

    fn lock(&self) -> MutexGuard<'_, LiveState<S::Config>> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: TlsSettings> fmt::Debug for LiveTls<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveTls").finish_non_exhaustive()
    }
}

/// Runs what blocks beside the tasks of a runtime.
async fn unblocked<T: Send + 'static>(
    runtime: &Handle,
    load: impl FnOnce() -> Result<T, TlsError> + Send + 'static,
) -> Result<T, TlsError> {
    match runtime.spawn_blocking(load).await {
        Ok(loaded) => loaded,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(TlsError::new("the runtime is shut down")),
        },
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    // A system without times of files follows their lengths.
    let stamp = |of: fs::Metadata| (of.modified().unwrap_or(SystemTime::UNIX_EPOCH), of.len());
    files.iter().map(|file| fs::metadata(file).ok().map(stamp)).collect()
}
