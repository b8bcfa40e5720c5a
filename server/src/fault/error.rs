//! What is wrong with a fault that is to be placed.

/// Why a fault was not placed. The message names the mistake and the hint.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// The pattern can match no path.
    #[error("path pattern {pattern:?}: {hint}")]
    Pattern {
        /// As it was given.
        pattern: String,
        /// What it must be.
        hint: &'static str,
    },
    /// The opcode of something that is no request.
    #[error("a session is opened by a handshake, not by a request; match `handshake()` instead")]
    NoRequest,
    /// A path was asked for where there is none.
    #[error("a {what} has no path; leave `path` out, or match a request that has one")]
    NoPath {
        /// What was to be met.
        what: String,
    },
    /// A session was asked for where there is none yet.
    #[error("a connection has no session before its handshake; match `handshake()` or `request()` instead")]
    NoSession,
    /// `nth(0)` or `times(0)`.
    #[error("counts begin at 1: number 0, or the first 0, is never met")]
    Never,
    /// Two of what can be only one.
    #[error("a fault has one {what}: give it once, or place a fault for each")]
    Twice {
        /// Of what.
        what: &'static str,
    },
    /// Both of `nth` and `times`, or one of them twice.
    #[error("`nth` and `times` contradict each other; keep one of them")]
    CountedTwice,
    /// A probability outside of 0 to 1.
    #[error("a probability of {share}: must be between 0 and 1")]
    Probability {
        /// As it was given.
        share: f64,
    },
    /// An action that does not fit what is met.
    #[error("cannot {action} on a {what}: {hint}")]
    Unfit {
        /// What was to happen.
        action: String,
        /// To what.
        what: String,
        /// What to do instead.
        hint: &'static str,
    },
    /// A fault that stands meets everything that this one is for, so that this one would never fire.
    #[error(
        "never reached: the fault `{by}` meets all of this first; remove it, or narrow it by `nth` or `times`"
    )]
    Shadowed {
        /// The fault that stands.
        by: String,
    },
}
