//! `edit`: the data of a znode in an editor, written only if nobody has changed it meanwhile.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use zoolet_client::{ErrorCode, path};

use crate::diff;
use crate::failure::{ExitReason, ShellError, ShellResult};
use crate::shell::Shell;

/// The arguments of `edit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: EDITOR=nano zoolet edit /config")]
pub struct Edit {
    /// The znode
    path: String,
    /// The editor; without it the variables VISUAL and EDITOR say it, or else it is vi
    #[arg(long, value_name = "COMMAND")]
    editor: Option<String>,
    /// Do not ask before writing
    #[arg(short, long)]
    yes: bool,
}

impl Edit {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let path = shell.path(&self.path);
        let read = shell.client.get_data(&path).await;
        let (old, stat) = shell.answered_unless(read, ErrorCode::NoNode, "`create` makes one")?;
        if std::str::from_utf8(&old).is_err() {
            let message = format!(
                "the data of {path} is not text: use `get {path} > FILE` and `set {path} --file FILE`"
            );
            return Err(shell.fail(ExitReason::Usage, message));
        }
        let failed = |error| ShellError::local("make a file for the editor", &error);
        // The name tells the editor what it is, as of `/config.json`.
        let suffix =
            format!("-{}", path::name(&path).replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "_"));
        let mut file =
            tempfile::Builder::new().prefix("zoolet-").suffix(&suffix).tempfile().map_err(failed)?;
        file.write_all(&old).and_then(|()| file.flush()).map_err(failed)?;
        let editor = self.editor.clone().unwrap_or_else(editor);
        // By a shell, because the variable may have arguments.
        let script = format!("{editor} \"$1\"");
        let status = Command::new("sh").args(["-c", &script, &editor]).arg(file.path()).status();
        // From here on nothing loses it, not even Ctrl-C during the write.
        let file = file.into_temp_path().keep().map_err(|error| failed(error.error))?;
        let outcome = match status {
            Ok(status) if status.success() => self.write(shell, &path, &old, stat.version, &file).await,
            Ok(status) => Err(shell.fail(
                ExitReason::Local,
                format!("the editor {editor:?} failed: {status}; nothing is written"),
            )),
            Err(error) => Err(ShellError::local(&format!("run the editor {editor:?}"), &error)),
        };
        match outcome {
            Err(error) if fs::read(&file).is_ok_and(|new| new != old) => {
                let message = format!("{error}; what you wrote is in {}", file.display());
                Err(ShellError::new(error.reason(), message))
            }
            outcome => {
                let _ = fs::remove_file(&file);
                outcome
            }
        }
    }

    /// Writes what the editor has left in a file, unless nothing is changed.
    async fn write(
        &self,
        shell: &mut Shell<'_>,
        path: &str,
        old: &[u8],
        version: i32,
        file: &Path,
    ) -> ShellResult {
        let new = fs::read(file).map_err(|error| ShellError::local("read what the editor wrote", &error))?;
        if new == old {
            shell.note("nothing is changed");
            return Ok(());
        }
        shell.note(diff::of_data(old, &new).trim_end());
        if !self.yes {
            shell.confirm(&format!("Write this to {path}?"))?;
        }
        let stat = shell.answered(shell.client.set_data(path, new).version(version).await)?;
        shell.written(path, &stat)
    }
}

fn editor() -> String {
    let set = |name: &str| env::var(name).ok().filter(|editor| !editor.trim().is_empty());
    set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned())
}
