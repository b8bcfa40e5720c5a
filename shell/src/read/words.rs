//! `words`: what every member of an ensemble says, side by side.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::address::hosts;
use crate::answer::Answer;
use crate::connect::interval;
use crate::dial::Dial;
use crate::failure::{ExitReason, ShellResult};
use crate::text::shown;

/// How a server ends its answer to a word that `4lw.commands.whitelist` lacks.
const REFUSAL: &str = "is not executed because it is not in the whitelist.";
/// The longest answer that is read.
const MAX_ANSWER: u64 = 64 * 1024 * 1024;

/// The arguments of `words`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It needs no session, so it also works without a quorum. Example: zoolet words mntr --server zk1,zk2,zk3"
)]
pub struct Words {
    /// The word, such as srvr, mntr, ruok, cons or dump, as far as the servers allow it
    #[arg(default_value = "srvr", value_parser = word)]
    word: String,
    /// How long to wait for each server
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = interval)]
    patience: Duration,
}

fn word(text: &str) -> Result<String, String> {
    match text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_lowercase()) {
        true => Ok(text.to_owned()),
        false => Err("must be four letters, such as mntr".to_owned()),
    }
}

impl Words {
    /// Asks all servers at once.
    pub(crate) async fn run(&self, answer: &mut Answer<'_>) -> ShellResult {
        let said = ask_all(answer, &self.word, self.patience).await;
        let errors: Vec<_> = said.values().filter_map(|said| said.as_ref().err()).collect();
        let refused = errors.iter().filter(|error| error.ends_with(REFUSAL)).count();
        let silent = errors.len() - refused;
        if answer.json {
            for (server, said) in &said {
                answer.json_line(&self.object(server, said))?;
            }
        } else if self.word == "mntr" {
            print_table(answer, &said)?;
        } else {
            for (server, said) in &said {
                answer.line(format!("{server}:"))?;
                let text = said.as_ref().unwrap_or_else(|error| error);
                text.lines().try_for_each(|line| answer.line(format!("  {}", shown(line))))?;
            }
        }
        let all = said.len();
        let refusal = format!("refused {}: allow it there by 4lw.commands.whitelist", self.word);
        let (reason, message) = match (silent, refused) {
            (0, 0) => return Ok(()),
            (0, _) => (ExitReason::Refused, format!("{refused} of {all} servers {refusal}")),
            (_, 0) => (ExitReason::Unreachable, format!("{silent} of {all} servers did not answer")),
            _ => (
                ExitReason::Unreachable,
                format!("{silent} of {all} servers did not answer, and {refused} {refusal}"),
            ),
        };
        Err(answer.fail(reason, message))
    }

    fn object(&self, server: &str, said: &Result<String, String>) -> Value {
        match said {
            Err(error) => json!({"server": server, "word": self.word, "error": error}),
            Ok(text) if self.word == "mntr" => {
                json!({"server": server, "word": self.word, "values": values(text).collect::<BTreeMap<_, _>>()})
            }
            Ok(text) => json!({"server": server, "word": self.word, "answer": text}),
        }
    }
}

/// What each server answers, or why it does not.
pub(super) async fn ask_all(
    servers: &Answer<'_>,
    word: &str,
    patience: Duration,
) -> BTreeMap<String, Result<String, String>> {
    let mut asking = JoinSet::new();
    for host in hosts(&servers.server) {
        let (dial, word) = (servers.dial.clone(), word.to_owned());
        asking.spawn(async move {
            let said = timeout(patience, ask(&dial, &host, &word)).await;
            let said = said.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
            (host, said.map_err(|error| error.to_string()))
        });
    }
    asking.join_all().await.into_iter().collect()
}

async fn ask(dial: &Dial, host: &str, word: &str) -> std::io::Result<String> {
    let mut stream = dial.connect(host).await?;
    stream.write_all(word.as_bytes()).await?;
    let mut text = Vec::new();
    match stream.take(MAX_ANSWER).read_to_end(&mut text).await {
        // Many servers end a connection by TLS without a notice.
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    match &*text {
        "" => Err(std::io::Error::other("it closes the connection without an answer")),
        refusal if refusal.trim_end().ends_with(REFUSAL) => Err(std::io::Error::other(refusal.trim_end())),
        _ => Ok(text),
    }
}

/// Names and values.
fn values(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once('\t'))
}

/// A line for each value, a column for each server.
fn print_table(answer: &mut Answer<'_>, said: &BTreeMap<String, Result<String, String>>) -> ShellResult {
    let mut rows: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (at, text) in said.values().enumerate() {
        for (name, value) in text.iter().flat_map(|text| values(text)) {
            let row = rows.entry(name).or_default();
            row.resize(at, "-");
            row.push(value);
        }
    }
    // The names of the servers come first.
    rows.insert("", said.keys().map(String::as_str).collect());
    rows.values_mut().for_each(|row| row.resize(said.len(), "-"));
    let first = rows.keys().map(|name| name.len()).max().unwrap_or(0);
    let width = |at: usize| rows.values().map(|row| row[at].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..said.len()).map(width).collect();
    for (name, row) in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("  {:>width$}", shown(cell)));
        answer.line(format!("{name:<first$}{}", cells.collect::<String>()))?;
    }
    for (server, said) in said {
        if let Err(error) = said {
            answer.note(format!("{server}: {}", shown(error)));
        }
    }
    Ok(())
}
