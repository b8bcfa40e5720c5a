//! [`OwnThread`]: a server on a thread with a runtime of its own, which what the program does cannot hold up.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime::{self, Runtime};
use tokio::sync::oneshot;
use tracing::Span;

use crate::config::ServerBuilder;
use crate::error::StartError;
use crate::server::Server;
use crate::shared::Shared;

/// The thread of a server. It ends with the server; dropping this does not wait for that.
pub(crate) struct OwnThread {
    thread: JoinHandle<()>,
    /// Fails when the runtime is gone, just before the thread ends.
    ended: oneshot::Receiver<()>,
}

impl OwnThread {
    /// Starts a server on a new thread. If the future is dropped, the server stops.
    pub(crate) async fn start(builder: ServerBuilder) -> Result<Server, StartError> {
        let fail = |source| StartError::Thread { source };
        let (report, started) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let span = Span::current();
        // Here, as its errors are the caller's.
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
        let run = move || {
            span.in_scope(|| run(runtime, builder, report));
            drop(end);
        };
        let thread = thread::Builder::new().name("zoolet-server".to_owned()).spawn(run).map_err(fail)?;
        match started.await {
            Ok(started) => {
                let mut server = started?;
                server.thread = Some(Self { thread, ended });
                Ok(server)
            }
            Err(_) => match thread.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => Err(fail(io::Error::other("it has ended before the server started"))),
            },
        }
    }

    /// Waits until the thread has ended, after the server was stopped.
    pub(crate) async fn ended(self) {
        let _ = self.ended.await;
        // Nothing is left to run on it: this takes no time. A panic was that of a task, which tokio has caught.
        let _ = self.thread.join();
    }
}

fn run(runtime: Runtime, builder: ServerBuilder, report: oneshot::Sender<Result<Server, StartError>>) {
    runtime.block_on(async {
        let started = Shared::start(builder).await.map(|shared| Server { shared, thread: None });
        let running = started.as_ref().ok().map(|server| Arc::clone(&server.shared));
        // If nobody waits for the server any longer, it is dropped here or with the channel, which stops it.
        let _ = report.send(started);
        let Some(shared) = running else { return };
        // Ends when the server is told to stop and its last connection has ended.
        shared.tasks.wait().await;
        shared.log_ended().await;
    });
    // Whatever a client's task may still hold.
    runtime.shutdown_background();
}
