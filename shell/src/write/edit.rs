//! `edit`: the data of a znode in an editor, written only if nobody has changed it meanwhile.

use std::env;
use std::fs;
use std::io::Write as _;
use std::process::Command;

use zoolet_client::{ErrorCode, path};

use crate::diff;
use crate::failure::{ExitReason, ShellError};
use crate::json;
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
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> Result<(), ShellError> {
        let path = shell.path(&self.path);
        let read = shell.client.get_data(&path).await;
        let (old, stat) =
            read.map_err(|error| shell.failed_because(&error, ErrorCode::NoNode, "`create` makes one"))?;
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
        let status = Command::new("sh")
            .arg("-c")
            .arg(format!("{editor} \"$1\""))
            .arg(&editor)
            .arg(file.path())
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => {
                return Err(shell.fail(
                    ExitReason::Local,
                    format!("the editor {editor:?} failed: {status}; nothing is written"),
                ));
            }
            Err(error) => return Err(ShellError::local(&format!("run the editor {editor:?}"), &error)),
        }
        let new =
            fs::read(file.path()).map_err(|error| ShellError::local("read what the editor wrote", &error))?;
        if new == old {
            shell.note("nothing is changed");
            return Ok(());
        }
        shell.note(diff::of_data(&old, &new).trim_end());
        if !self.yes {
            shell.confirm(&format!("Write this to {path}?"))?;
        }
        match shell.client.set_data(&path, new).version(stat.version).await {
            Ok(stat) if shell.json => shell.json_line(&json::znode(&path, &stat)),
            Ok(_) => Ok(()),
            Err(error) => {
                let kept = file.into_temp_path().keep();
                let kept = kept.map_or_else(
                    |_| String::new(),
                    |kept| format!("what you wrote is in {}", kept.display()),
                );
                Err(shell.failed_with(&error, &kept))
            }
        }
    }
}

fn editor() -> String {
    let set = |name: &str| env::var(name).ok().filter(|editor| !editor.trim().is_empty());
    set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned())
}
