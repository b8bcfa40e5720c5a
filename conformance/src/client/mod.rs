//! Judges clients: a proxy before a real server disturbs their connections, and a judge looks at every frame.

mod check;
mod director;
mod evidence;
mod judge;
mod prepare;
mod proxy;
mod rule;
mod scenario;
mod session;
mod watches;
mod xids;

pub use check::{ClientCheck, ClientVerdict};
pub use evidence::{Evidence, Mistake};
pub use rule::ClientRule;
pub use scenario::ClientScenario;
