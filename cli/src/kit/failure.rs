//! Why a command of the kit could not do its work, or could not judge.

use zoolet_conformance::{CaptureError, ClientError, RunError, SyntaxError};

use crate::failure::{Failure, MISTAKE};
use crate::text::quoted;

/// An error of a command of the kit; [`Failure`] says how its message reads.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KitFailure {
    #[error("cannot judge {0}")]
    Conform(#[from] RunError),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Cases(#[from] SyntaxError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("no case is called {}: names are GROUP/CASE, and `zoolet conform --list` shows them", quoted(.only))]
    NoSuchCase { only: String },
    #[error(
        "no case is left: those that match are for another --profile, or for servers with settings (--with, --super)"
    )]
    NoCaseLeft,
    #[error("no scenario is called {}: see `zoolet conform --client --list`", quoted(.only))]
    NoSuchScenario { only: String },
    #[error(
        "--client needs the command of a program that uses ZooKeeper, after `--`: zoolet conform --client -- COMMAND {{}}"
    )]
    NoCommand,
    #[error("{doing}{error}{}", if .error.may_be_starting() { *.hint } else { "" })]
    NotServing { doing: &'static str, error: RunError, hint: &'static str },
    #[error("too little was done to judge: {0}")]
    Undecided(String),
    #[error("not all that was created could be removed: {left}")]
    NotCleanedUp { left: String },
    #[error("interrupted before everything was judged")]
    Interrupted { code: u8 },
    #[error("{cause}; {left}")]
    LeftBehind { cause: Box<Failure>, left: String },
}

impl KitFailure {
    /// The exit code of the process.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Interrupted { code } => *code,
            Self::LeftBehind { cause, .. } => cause.code(),
            _ => MISTAKE,
        }
    }
}

/// What `?` needs where a command returns a `Failure`.
impl<E> From<E> for Failure
where
    KitFailure: From<E>,
{
    fn from(error: E) -> Self {
        Self::Kit(error.into())
    }
}
