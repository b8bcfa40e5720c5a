//! `get` and `stat`: one znode.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use serde_json::Value;

use super::found;
use crate::failure::{ExitReason, ShellResult};
use crate::json;
use crate::shell::Shell;
use crate::text;

/// The most bytes that compressed data becomes: a few bytes can become any number.
const MAX_UNZIPPED: u64 = 256 * 1024 * 1024;

/// The arguments of `get`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet get /config > config.bin")]
pub struct Get {
    /// The znode
    path: String,
    /// Print the metadata after the data
    #[arg(short, long)]
    stat: bool,
    /// Print the data as hexadecimal, with offsets
    #[arg(short = 'x', long, group = "form")]
    hex: bool,
    /// Print the data as base64
    #[arg(short, long, group = "form")]
    base64: bool,
    /// Print the data, which is JSON, indented
    #[arg(long, group = "form")]
    pretty: bool,
    /// Decompress the data before
    #[arg(long)]
    gunzip: bool,
}

impl Get {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let path = shell.path(&self.path);
        let (data, stat) = found(shell, shell.client.get_data(&path).await)?;
        let data = if self.gunzip { gunzip(shell, &path, &data)? } else { data };
        if shell.json {
            return shell.json_line(&json::joined([json::znode(&path, &stat), json::data(&data)]));
        }
        let on_terminal = shell.io.is_terminal;
        if self.hex || (on_terminal && !self.base64 && is_binary(&data)) {
            shell.print(text::hexdump(&data).as_bytes())?;
        } else if self.base64 {
            shell.line(BASE64.encode(&data))?;
        } else if self.pretty {
            let value: Value = serde_json::from_slice(&data)
                .map_err(|error| shell.fail(ExitReason::Usage, format!("{path} is not JSON: {error}")))?;
            shell.line(format!("{value:#}"))?;
        } else {
            // Byte by byte what is there, for a file or a pipe.
            shell.print(&data)?;
            if (on_terminal || self.stat || shell.is_many) && !data.ends_with(b"\n") {
                shell.print(b"\n")?;
            }
        }
        if self.stat { shell.print(text::stat(&stat).as_bytes()) } else { Ok(()) }
    }
}

/// Whether a terminal would do something else than show it.
fn is_binary(data: &[u8]) -> bool {
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    std::str::from_utf8(data).map_or(true, |text| text.chars().any(is_odd))
}

fn gunzip(shell: &Shell<'_>, path: &str, data: &[u8]) -> ShellResult<Bytes> {
    let mut unzipped = Vec::new();
    let read = MultiGzDecoder::new(data).take(MAX_UNZIPPED + 1).read_to_end(&mut unzipped);
    let read = read.map_err(|error| shell.fail(ExitReason::Usage, format!("{path} is not gzip: {error}")))?;
    match u64::try_from(read) {
        Ok(read) if read <= MAX_UNZIPPED => Ok(unzipped.into()),
        _ => Err(shell.fail(ExitReason::Refused, format!("{path} unzips to more than {MAX_UNZIPPED} bytes"))),
    }
}

/// The arguments of `stat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet stat --json /config | jq .version")]
pub struct StatArguments {
    /// The znode
    path: String,
}

impl StatArguments {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let path = shell.path(&self.path);
        let stat = shell.stat(&path).await?;
        match shell.json {
            true => shell.json_line(&json::znode(&path, &stat)),
            false => shell.print(text::stat(&stat).as_bytes()),
        }
    }
}
