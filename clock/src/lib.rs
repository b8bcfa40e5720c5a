//! One clock for a server, its clients and their locks, chosen by whoever starts them.
//!
//! - [`Clock::tokio`], the default everywhere: tokio's clock, so paused time is the test's.
//! - [`Clock::system`]: the machine's own, also in a runtime whose time is paused.
//! - [`Clock::manual`]: stands still until a test moves it. The only right one for clients in other processes: a paused
//!   tokio clock jumps whenever this process is idle, and would expire them at once.
//!
//! ```
//! use std::time::Duration;
//! use zoolet_clock::Clock;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), zoolet_clock::NotManual> {
//! let clock = Clock::manual();
//! let asleep = tokio::spawn(clock.sleep(Duration::from_secs(3600)));
//! tokio::task::yield_now().await;                     // it sleeps now
//! clock.advance(Duration::from_secs(3600))?;
//! asleep.await.expect("an hour has passed");
//! # Ok(())
//! # }
//! ```
//!
//! Instants are tokio's whatever the clock, and mean something only to the clock they are from.

mod clock;
mod manual;
mod sleep;

pub use clock::{Clock, Elapsed, NotManual};
pub use manual::Hold;
pub use sleep::Sleep;
