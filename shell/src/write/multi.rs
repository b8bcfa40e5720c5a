//! `multi`: several writes, all or none.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use serde_json::json;
use zoolet_client::{Error, MultiOutcome};

use super::data::{CreateArguments, Set};
use crate::failure::{ExitReason, ShellResult, read_file};
use crate::json;
use crate::line::one_line;
use crate::shell::Shell;
use crate::split;
use crate::text::shown;

/// The arguments of `multi`.
#[derive(Debug, clap::Args)]
#[command(after_help = "A line is one of: create [-e] [-s] [-c] [--ttl TIME] [--acl ACL] PATH [DATA], \
    set [--if-version N] PATH DATA, rm [--if-version N] PATH, check PATH [VERSION]. Lines that begin with # are left out.\n\
    Example: printf 'check /lock 3\\nset /a x\\n' | zoolet multi")]
pub struct MultiArguments {
    /// The file with an operation in each line; standard input if it is not given
    file: Option<PathBuf>,
}

#[derive(Debug, Parser)]
#[command(name = "", no_binary_name = true, disable_help_flag = true)]
struct OperationLine {
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Debug, Subcommand)]
enum Operation {
    Create(CreateArguments),
    Set(Set),
    #[command(alias = "delete")]
    Rm {
        path: String,
        #[arg(long)]
        if_version: Option<i32>,
    },
    Check {
        path: String,
        #[arg(allow_negative_numbers = true)]
        version: Option<i32>,
    },
}

impl MultiArguments {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let (text, place) = match &self.file {
            None => (shell.read_input("name the file, multi FILE").await?, "standard input".to_owned()),
            Some(file) => (read_file(file)?.into(), file.display().to_string()),
        };
        // With the number of each line, for messages.
        let mut operations = Vec::new();
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let wrong =
                |why: String| shell.fail(ExitReason::Usage, format!("{place}, line {}: {why}", at + 1));
            let line = std::str::from_utf8(line)
                .map_err(|_| wrong("it is not text: give such data by --file FILE".to_owned()))?;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let words = split::words(line).ok_or_else(|| wrong("a quote is open".to_owned()))?;
            let parsed = OperationLine::try_parse_from(words).map_err(|error| wrong(one_line(&error)))?;
            if matches!(&parsed.operation, Operation::Create(create) if create.parents) {
                return Err(wrong("-p is not for a multi: create parents in lines of their own".to_owned()));
            }
            operations.push((at + 1, parsed.operation));
        }
        let outcomes = self.commit(shell, &operations).await?.map_err(|error| {
            let line = error.failed_operation().and_then(|index| operations.get(index));
            let line =
                line.map_or_else(String::new, |(line, _)| format!("{place}, line {line}; nothing is done"));
            shell.failed_with(&error, &line)
        })?;
        outcomes.iter().try_for_each(|outcome| print(shell, outcome))
    }

    async fn commit(
        &self,
        shell: &mut Shell<'_>,
        operations: &[(usize, Operation)],
    ) -> ShellResult<Result<Vec<MultiOutcome>, Error>> {
        let client = shell.client.clone();
        let mut multi = client.multi();
        for (_, operation) in operations {
            multi = match operation {
                Operation::Create(create) => multi.add(create.build(&client, shell).await?),
                Operation::Set(set) => multi.add(set.build(&client, shell).await?),
                Operation::Rm { path, if_version } => {
                    multi.add(client.delete(shell.path(path)).version(*if_version))
                }
                Operation::Check { path, version } => multi.check(shell.path(path), *version),
            };
        }
        Ok(multi.commit().await)
    }
}

fn print(shell: &mut Shell<'_>, outcome: &MultiOutcome) -> ShellResult {
    if shell.json {
        let path = outcome.path().map(|path| json!({"path": path})).unwrap_or_default();
        let stat = outcome.stat().map(json::stat).unwrap_or_default();
        return shell.json_line(&json::joined([json!({"done": true}), path, stat]));
    }
    match outcome.path() {
        Some(path) => shell.line(shown(path)),
        None => Ok(()),
    }
}
