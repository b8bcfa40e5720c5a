//! The goals of the project, by workload.

use crate::workload::Workload;

/// Goals of a comparison of our server with the others.
#[derive(Default)]
pub(crate) struct Goal {
    /// At most this multiple of the echo's CPU time.
    pub(crate) of_echo: Option<f64>,
    /// Apache's CPU time is at least this multiple of ours.
    pub(crate) below_apache: Option<f64>,
    /// Apache's median latency is at least this multiple of ours.
    pub(crate) faster_than_apache: Option<f64>,
}

impl Goal {
    pub(crate) fn of(workload: &Workload) -> Self {
        let bounds = |of_echo, below_apache| Self { of_echo, below_apache, faster_than_apache: None };
        match workload.name {
            "get-1x1" => bounds(Some(1.3), Some(6.0)),
            "set-1x1" => bounds(Some(1.5), Some(6.0)),
            "get-16x1" | "set-16x1" => bounds(Some(1.6), Some(3.0)),
            "get-16x16" | "set-16x16" | "create-16x16" => bounds(None, Some(8.0)),
            "watch-1x1" | "watch-16x1" | "watch-16x16" | "fanout-1000" => bounds(None, Some(5.0)),
            "session" => bounds(None, Some(4.0)),
            "lock" => Self { faster_than_apache: Some(3.0), ..bounds(None, Some(4.0)) },
            _ => Self::default(),
        }
    }
}
