//! Commands that write.

pub(crate) mod acl;
pub(crate) mod bench;
pub(crate) mod create;
pub(crate) mod edit;
pub(crate) mod multi;
pub(crate) mod quota;
pub(crate) mod remove;
pub(crate) mod set;

use std::path::PathBuf;

use bytes::Bytes;

use crate::failure::{ShellResult, read_file};
use crate::shell::Shell;

/// Where the data of a write comes from.
#[derive(Debug, clap::Args)]
pub(crate) struct DataArguments {
    /// The data; - for what is on standard input
    #[arg(allow_negative_numbers = true)]
    data: Option<String>,
    /// A file with the data
    #[arg(long, short, value_name = "FILE", conflicts_with = "data")]
    file: Option<PathBuf>,
}

impl DataArguments {
    /// The data, if any is given.
    async fn read(&self, shell: &mut Shell<'_>) -> ShellResult<Option<Bytes>> {
        if let Some(file) = &self.file {
            return Ok(Some(read_file(file)?.into()));
        }
        match self.data.as_deref() {
            Some("-") => shell.read_input("give a file by --file FILE").await.map(Some),
            given => Ok(given.map(|text| Bytes::copy_from_slice(text.as_bytes()))),
        }
    }
}
