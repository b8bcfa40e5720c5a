//! The commands.

use std::pin::Pin;

use crate::failure::{ShellError, ShellResult};
use crate::read;
use crate::shell::Shell;
use crate::transfer;
use crate::write;

/// Declares the commands: variant, arguments, name, whether it writes.
macro_rules! commands {
    ($($(#[doc = $doc:literal])* $variant:ident($arguments:ty) = $name:literal $(, alias: $alias:literal)?, writes: $writes:literal;)*) => {
        /// A command and its arguments.
        #[derive(Debug, clap::Subcommand)]
        #[non_exhaustive]
        pub enum ShellCommand {
            $($(#[doc = $doc])* #[command(name = $name $(, alias = $alias)?)] $variant($arguments),)*
        }

        impl ShellCommand {
            /// As it is typed.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* }
            }

            fn is_write(&self) -> bool {
                match self { $(Self::$variant(_) => $writes,)* }
            }

            /// Boxed, or the future of each place that runs commands has the code of all of them in it.
            pub(crate) fn run<'s>(
                &'s self,
                shell: &'s mut Shell<'_>,
            ) -> Pin<Box<dyn Future<Output = ShellResult> + 's>> {
                match self { $(Self::$variant(arguments) => Box::pin(arguments.run(shell)),)* }
            }
        }
    };
}

commands! {
    /// List the children of a znode
    Ls(read::list::Ls) = "ls", writes: false;
    /// Print the data of a znode
    Get(read::data::Get) = "get", writes: false;
    /// Print the metadata of a znode
    Stat(read::data::StatArguments) = "stat", writes: false;
    /// Draw a znode and all below it
    Tree(read::tree::TreeArguments) = "tree", writes: false;
    /// List the paths below a znode that match
    Find(read::find::Find) = "find", writes: false;
    /// Search the data of a znode and all below it
    Grep(read::grep::Grep) = "grep", writes: false;
    /// Add up the sizes of data below a znode
    Du(read::usage::Du) = "du", writes: false;
    /// Count the znodes below a znode
    ChildCount(read::usage::ChildCount) = "child-count", alias: "getAllChildrenNumber", writes: false;
    /// Print who may do what with a znode
    Acl(read::access::AclArguments) = "acl", alias: "getAcl", writes: false;
    /// Print the identities of the session
    WhoAmI(read::access::WhoAmI) = "whoami", writes: false;
    /// Print the changes of a znode or a tree as they happen
    Watch(read::watch::WatchArguments) = "watch", alias: "addWatch", writes: false;
    /// Print what every server says to a four-letter word, side by side
    Words(read::words::Words) = "words", writes: false;
    /// Print which session owns which ephemerals, and from where
    Sessions(read::sessions::SessionsArguments) = "sessions", writes: false;
    /// Print the members of the ensemble
    Config(read::config::ConfigArguments) = "config", writes: false;
    /// Print who holds locks, and who waits
    Locks(read::locks::Locks) = "locks", writes: false;
    /// Print the limits of a tree, and what it uses
    Quota(write::quota::Quota) = "quota", alias: "listquota", writes: false;
    /// Create a znode
    Create(write::data::CreateArguments) = "create", writes: true;
    /// Replace the data of a znode
    Set(write::data::Set) = "set", writes: true;
    /// Delete a znode, or with -r all below it too
    Rm(write::remove::Rm) = "rm", alias: "delete", writes: true;
    /// Edit the data of a znode, and write it if nobody else has
    Edit(write::edit::Edit) = "edit", writes: true;
    /// Replace who may do what with a znode, or with -R all below it too
    SetAcl(write::acl::SetAclArguments) = "set-acl", alias: "setAcl", writes: true;
    /// Execute writes from a file or standard input: all or none
    Multi(write::multi::MultiArguments) = "multi", writes: true;
    /// Limit a tree
    SetQuota(write::quota::SetQuota) = "set-quota", alias: "setquota", writes: true;
    /// Measure how fast a server answers
    Bench(write::bench::BenchArguments) = "bench", writes: true;
    /// Compare two trees
    Diff(transfer::copy::DiffArguments) = "diff", writes: false;
    /// Copy a znode, or with -r a tree, also to another cluster
    Cp(transfer::copy::Cp) = "cp", writes: true;
    /// Make one tree like another, also of another cluster
    Mirror(transfer::copy::Mirror) = "mirror", writes: true;
    /// Write a tree, as it was after one transaction, to a file
    Export(transfer::export::Export) = "export", writes: false;
    /// Create the znodes of a file
    Import(transfer::import::Import) = "import", writes: true;
}

impl ShellCommand {
    /// Fails if the command writes where everything else is refused.
    pub(crate) fn check_read_only(&self, read_only: bool) -> ShellResult {
        if read_only && self.is_write() {
            let message = format!("{}: this is a shell that only reads (--read-only)", self.name());
            return Err(ShellError::usage(message));
        }
        Ok(())
    }

    /// Fails if the command makes sense only in a shell.
    pub(crate) fn check_alone(&self) -> ShellResult {
        match self {
            Self::Create(create) if create.is_ephemeral() => Err(ShellError::usage(
                "create: an ephemeral ends with its session, which is that of this command: use `zoolet sh`",
            )),
            _ => Ok(()),
        }
    }
}

/// What a command of zkCli or zk-shell is called here, if its name is not one here.
pub fn name_here(name: &str) -> Option<&'static str> {
    Some(match name {
        "deleteall" | "rmr" => "rm -r",
        "delquota" => "set-quota --delete",
        "getEphemerals" | "session_info" => "sessions -l",
        "get_acls" => "acl",
        "set_acls" => "set-acl",
        "child_count" => "child-count",
        "json_cat" => "get --pretty",
        "exists" => "stat",
        "txn" => "multi",
        "printwatches" => "watch",
        "close" => "quit",
        "mntr" | "cons" | "dump" => "words",
        _ => return None,
    })
}
