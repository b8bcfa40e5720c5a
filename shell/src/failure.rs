//! Why a command failed: a message of one line, and the exit code.

use std::io;
use std::path::Path;

#[cfg(feature = "tls")]
use zoolet_client::tls::TlsError;
use zoolet_client::{Error, ErrorCode};

use crate::text::shown;

/// Why a command failed, as its exit code says it to a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitReason {
    /// 1: a znode does not exist, or nothing was found.
    Absent = 1,
    /// 2: the command or a setting is wrong; nothing was sent.
    Usage = 2,
    /// 3: a server refuses, as for want of a right, or lacks the operation.
    Refused = 3,
    /// 4: the tree is not as the command expects, as after a change by somebody else.
    Conflict = 4,
    /// 5: no server was reached, or the session ended; a write may have been executed.
    Unreachable = 5,
    /// 6: something on this machine failed, such as a file.
    Local = 6,
    /// 130: interrupted.
    Interrupted = 130,
}

/// The data of a file.
pub(crate) fn read_file(file: &Path) -> ShellResult<Vec<u8>> {
    std::fs::read(file).map_err(|error| ShellError::local(&format!("read {}", file.display()), &error))
}

impl ExitReason {
    /// The exit code of the process.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// Why a command failed. The message is one line, with the command, the path, the server and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ShellError {
    reason: ExitReason,
    message: String,
    is_reader_gone: bool,
}

/// What a command comes to.
pub(crate) type ShellResult<T = ()> = Result<T, ShellError>;

impl ShellError {
    pub(crate) fn new(reason: ExitReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), is_reader_gone: false }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitReason::Usage, message)
    }

    /// The output could not be written.
    pub(crate) fn output(error: io::Error) -> Self {
        let is_reader_gone = error.kind() == io::ErrorKind::BrokenPipe;
        let message = format!("cannot write the answer: {error}");
        Self { reason: ExitReason::Local, message, is_reader_gone }
    }

    /// A file, or an input, could not be used.
    pub(crate) fn local(doing: &str, error: &io::Error) -> Self {
        Self::new(ExitReason::Local, format!("cannot {doing}: {error}"))
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(ExitReason::Interrupted, "interrupted")
    }

    /// A request of `command` failed at `server`. `hint` is what to do about a code, if the command knows better.
    pub(crate) fn request(command: &str, server: &str, error: &Error, hint: Option<&str>) -> Self {
        let reason = reason_of(error);
        // An identity may be added again.
        let outcome = match error.may_have_applied() && command != "addauth" {
            true => "; it may have been done: look before you repeat it",
            false => "",
        };
        let hint = hint.map(str::to_owned).or_else(|| general_hint(command, error).map(str::to_owned));
        // What the library advises is for programs, so our own advice replaces it.
        let what = match error {
            Error::Refused { context, code } if hint.is_some() => {
                format!("{}: {code}", shown(context.path()))
            }
            Error::RequestTooLarge { context, size, max } => {
                format!(
                    "{}: it would be {size} bytes, and servers take {max} (jute.maxbuffer)",
                    shown(context.path())
                )
            }
            Error::ReplyTooLarge { context, size, max } => {
                format!("{}: the answer has {size} bytes, and {max} are read at most", shown(context.path()))
            }
            Error::InvalidTarget(_) => error
                .to_string()
                .replace(
                    "`ConnectOptions::sasl_password`",
                    "a line sasl:USER:PASSWORD of --auth-file or ZOOLET_AUTH",
                )
                .replace("`sasl_digest_md5`", "--auth-file or ZOOLET_AUTH"),
            error => error.to_string(),
        };
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        // A message of `Unreachable` names the servers by itself.
        let place = match error {
            Error::Unreachable { .. } | Error::InvalidTarget(_) => String::new(),
            _ => format!(" (server {server})"),
        };
        Self::new(reason, format!("{command}: {what}{place}{outcome}{hint}"))
    }

    /// With the place of the command in a script.
    pub(crate) fn in_line(self, number: usize) -> Self {
        let message = format!("standard input, line {number}: {}", self.message);
        Self { message, ..self }
    }

    /// Why, for the exit code.
    pub fn reason(&self) -> ExitReason {
        self.reason
    }

    /// Whether nobody reads the output any longer, as after `head`, so that there is nothing to report.
    pub fn is_reader_gone(&self) -> bool {
        self.is_reader_gone
    }
}

#[cfg(feature = "tls")]
impl From<TlsError> for ShellError {
    fn from(error: TlsError) -> Self {
        Self::usage(format!("TLS: {error}"))
    }
}

fn reason_of(error: &Error) -> ExitReason {
    match error {
        Error::InvalidPath { .. } | Error::InvalidOptions { .. } | Error::InvalidTarget(_) => {
            ExitReason::Usage
        }
        Error::AuthFailed(_) | Error::RequestTooLarge { .. } | Error::ReplyTooLarge { .. } => {
            ExitReason::Refused
        }
        Error::Refused { code, .. } | Error::MultiRefused { code, .. } => reason_of_code(*code),
        _ => ExitReason::Unreachable,
    }
}

pub(crate) fn reason_of_code(code: ErrorCode) -> ExitReason {
    use ErrorCode::*;
    match code {
        NoNode => ExitReason::Absent,
        NodeExists | BadVersion | NotEmpty | NoChildrenForEphemerals => ExitReason::Conflict,
        ConnectionLoss | OperationTimeout | RequestTimeout | SessionExpired | SessionMoved | ThrottledOp => {
            ExitReason::Unreachable
        }
        _ => ExitReason::Refused,
    }
}

/// What to do about an error.
fn general_hint(command: &str, error: &Error) -> Option<&'static str> {
    Some(match error.code()? {
        // It was refused itself.
        ErrorCode::NoAuth if command == "acl" => {
            "give your credentials by --auth-file or ZOOLET_AUTH, or by `addauth` in `zoolet sh`"
        }
        ErrorCode::NoAuth => {
            "`acl` shows who may; give your credentials by --auth-file or ZOOLET_AUTH, or by `addauth` in `zoolet sh`"
        }
        ErrorCode::AuthFailed if command == "addauth" => "check the scheme and the credentials",
        ErrorCode::AuthFailed => "check the scheme and the credentials in --auth-file or ZOOLET_AUTH",
        ErrorCode::SessionClosedRequireSaslAuth => "give credentials by --auth-file or ZOOLET_AUTH",
        ErrorCode::BadVersion => "somebody has changed it: `stat` shows its version",
        ErrorCode::NotReadOnly => "this server has lost its ensemble and takes no writes",
        ErrorCode::QuotaExceeded => "`quota` shows the limit",
        // What fails in TLS says why, and the server runs.
        ErrorCode::ConnectionLoss if matches!(error, Error::Unreachable { .. }) => {
            match error.connection_error() {
                Some(cause) if cause.reason().starts_with("TLS: ") => return None,
                _ => "name a server that runs by --server or ZOOKEEPER",
            }
        }
        _ => return None,
    })
}
