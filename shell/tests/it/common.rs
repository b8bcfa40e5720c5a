//! Commands on a test server, and what they print.

use serde_json::Value;
use zoolet::testing::TestServer;
use zoolet::{Client, Error, Sessions};
use zoolet_shell::{ExitReason, OtherServers, Shell, ShellError, ShellIo};

/// What a command has printed, and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub out: String,
    pub notes: String,
    pub outcome: Result<(), ShellError>,
}

impl Ran {
    /// The answer of a command that has succeeded.
    pub fn ok(self) -> String {
        self.outcome.unwrap();
        self.out
    }

    /// The objects of an answer in JSON.
    pub fn json(self) -> Vec<Value> {
        self.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The reason and the message of a command that has failed.
    pub fn failed(self) -> (ExitReason, String) {
        let error = self.outcome.unwrap_err();
        (error.reason(), error.to_string())
    }
}

/// Runs a line on a client. Nobody answers questions.
pub async fn run_on(client: &Client, line: &str) -> Ran {
    run_with(client, line, &[], None).await
}

/// Runs a line on a new client.
pub async fn run(zk: &TestServer, line: &str) -> Ran {
    run_on(&zk.client().await, line).await
}

/// Runs a line with an input, and with an answer to every question.
pub async fn run_with(client: &Client, line: &str, input: &[u8], answer: Option<&str>) -> Ran {
    run_in(client, line, input, answer, |_| panic!("no other session is needed")).await
}

/// Runs a line that opens other sessions, at this server or, for any address, at another.
pub async fn run_between(zk: &TestServer, other: &TestServer, line: &str, answer: Option<&str>) -> Ran {
    let open = |servers: OtherServers<'_>| {
        let server = if servers == OtherServers::Same { zk } else { other };
        Sessions::open(server.options(), server.connector())
    };
    let client = zk.client().await;
    let run = run_in(&client, line, b"", answer, open);
    zk.pass_time_until(run).await.unwrap()
}

async fn run_in(
    client: &Client,
    line: &str,
    input: &[u8],
    answer: Option<&str>,
    open: impl Fn(OtherServers<'_>) -> Result<Sessions, Error>,
) -> Ran {
    let (mut out, mut notes, mut questions) = (Vec::new(), Vec::new(), String::new());
    let mut io = ShellIo::new(&mut out, &mut notes).input(input);
    if let Some(answer) = answer {
        io = io.ask(|question| {
            questions.push_str(question);
            Ok(answer.to_owned())
        });
    }
    let mut shell = Shell::new(client.clone(), io).server("zk:2181").sessions(open);
    let outcome = shell.run_line(line).await;
    drop(shell);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { out: text(out), notes: text(notes) + &questions, outcome }
}
