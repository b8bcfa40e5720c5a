//! One clock for a server, its clients and their locks, chosen by the program that starts them.
//!
//! - [`Clock::tokio`], the default: tokio's clock, which a test can pause.
//! - [`Clock::system`]: the machine's clock, even in a runtime whose time is paused.
//! - [`Clock::manual`]: stands still until a test moves it. Tests with clients in other processes need this one: a paused tokio
//!   clock jumps whenever this process is idle, and would expire their sessions at once.
//!
//! ```
//! use std::time::Duration;
//! use zoolet_clock::Clock;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), zoolet_clock::NotManual> {
//! let clock = Clock::manual();
//! let asleep = tokio::spawn(clock.sleep(Duration::from_secs(3600)));
//! tokio::task::yield_now().await;                     // let it start
//! clock.advance(Duration::from_secs(3600))?;
//! asleep.await.expect("an hour has passed");
//! # Ok(())
//! # }
//! ```
//!
//! Every clock uses tokio's `Instant`. An instant is only valid for the clock that it is from.

mod clock;
mod machine;
mod manual;
mod sleep;
mod wait;

pub use clock::{Clock, Elapsed, NotManual, tokio_is_paused};
pub use manual::ActivityGuard;
pub use sleep::Sleep;
pub use wait::ClockWait;
