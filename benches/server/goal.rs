//! The goals of the project, by workload.

use crate::finding::Bound;
use crate::peer::Kind;
use crate::report::Figures;
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
            "tls-get-1x1" | "tls-set-1x1" | "tls-get-16x16" | "tls-set-16x16" => bounds(None, Some(5.0)),
            "tls-handshake" => bounds(None, Some(3.0)),
            "lock" => Self { faster_than_apache: Some(3.0), ..bounds(None, Some(4.0)) },
            _ => Self::default(),
        }
    }
}

/// A comparison of two servers on disk.
pub(crate) struct Comparison {
    pub(crate) about: &'static str,
    pub(crate) figure: fn(&Figures) -> f64,
    pub(crate) above: Kind,
    pub(crate) below: Kind,
    pub(crate) bound: Option<Bound>,
}

impl Comparison {
    /// Those of a workload on disk.
    pub(crate) fn of(workload: &Workload) -> Vec<Self> {
        use Bound::{AtLeast, AtMost};
        use Kind::{Apache, Echo, EchoThread, Zoolet};
        let compare = |about, figure, above, below, bound| Self { about, figure, above, below, bound };
        let [rate, p50, p99, cpu, beside]: [fn(&Figures) -> f64; 5] =
            [|f| f.rate, |f| f.p50, |f| f.p99, |f| f.cpu, |f| f.beside];
        match workload.name {
            "durable-set-1x1" => vec![
                compare("p50, zoolet / apache", p50, Zoolet, Apache, Some(AtMost(0.7))),
                compare("p50, zoolet / echo", p50, Zoolet, Echo, None),
                compare("p99, zoolet / apache", p99, Zoolet, Apache, None),
                compare("p50, echo-thread / apache", p50, EchoThread, Apache, None),
                compare("p50, zoolet / echo-thread", p50, Zoolet, EchoThread, Some(AtMost(1.3))),
            ],
            "durable-reader" | "durable-reader-16" => vec![
                compare("p99, zoolet / apache", p99, Zoolet, Apache, Some(AtMost(0.35))),
                compare("p99, echo-thread / apache", p99, EchoThread, Apache, None),
                compare("p99, zoolet / echo-thread", p99, Zoolet, EchoThread, None),
                compare("writes/s, zoolet / apache", beside, Zoolet, Apache, None),
            ],
            _ => vec![
                compare("ops/s, zoolet / apache", rate, Zoolet, Apache, Some(AtLeast(5.0))),
                compare("CPU us/op, apache / zoolet", cpu, Apache, Zoolet, Some(AtLeast(5.0))),
                compare("ops/s, zoolet / echo", rate, Zoolet, Echo, None),
            ],
        }
    }
}
