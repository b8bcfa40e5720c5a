//! The end of the task, with callers on other threads. The rest is tested through the public API.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::io::DuplexStream;
use tokio::runtime::Runtime;

use super::*;
use crate::call::ReplyFuture;
use crate::chroot::Chroot;
use crate::client::Client;
use crate::options::ConnectOptions;
use crate::state::SharedState;
use crate::transport::IntoTransport;

/// A client and its driver, which does not run yet.
fn client(runtime: &Runtime) -> (Client, SessionDriver) {
    let clock = Clock::manual();
    let chroot = Chroot::new("").expect("no chroot");
    let rng = StdRng::seed_from_u64(7);
    let options = ConnectOptions::default().clock(clock.clone()).max_pending(usize::MAX);
    let shared = Arc::new(SharedState::new(&options, None, rng));
    let (sender, receiver) = mpsc::unbounded_channel();
    let session = Session::new(options.session, Arc::clone(&shared), sender.downgrade(), clock.now());
    let nowhere = std::future::pending::<std::io::Result<DuplexStream>>;
    let transport = nowhere.into_transport().expect("a transport");
    (
        Client { commands: sender, shared, chroot, runtime: runtime.handle().clone(), is_limited: true },
        SessionDriver::new(session, transport, receiver, clock),
    )
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(std::task::Waker::noop()))
}

/// So many that some are interrupted at the wrong moment on few cores, and a round stays short.
const CALLERS: usize = 3;
/// What each sends once it could know better.
const LATE: usize = 5;

#[test]
fn a_request_that_is_sent_while_the_session_ends_gets_its_outcome() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let begin = Instant::now();
    // The window is a few instructions long, so it takes thousands of rounds to hit it.
    while begin.elapsed() < Duration::from_millis(1500) {
        let (zk, driver) = client(&runtime);
        let callers: Vec<_> = (0..CALLERS).map(|_| thread::spawn(caller(&zk))).collect();
        drop(zk.close());
        let mut running = pin!(driver.run());
        while poll_once(running.as_mut()).is_pending() {
            thread::yield_now();
        }
        // The handle that is left keeps the channel, and with it every command that was not received.
        for mut reply in callers.into_iter().flat_map(|caller| caller.join().expect("no panic")) {
            assert!(poll_once(Pin::new(&mut reply)).is_ready(), "this request has no outcome");
        }
    }
}

/// Sends until the session is over, and a little longer.
fn caller(zk: &Client) -> impl FnOnce() -> Vec<ReplyFuture<()>> + Send + use<> {
    let zk = zk.clone();
    move || {
        let mut replies = Vec::new();
        while !zk.state().is_final() {
            replies.push(zk.sync("/").send());
        }
        replies.extend((0..LATE).map(|_| zk.sync("/").send()));
        replies
    }
}
