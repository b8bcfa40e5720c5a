//! `zoolet data log`: the transactions of the log, also while a server writes it.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use zoolet_proto::Zxid;
use zoolet_server_core::{Txn, TxnOp};
use zoolet_storage::disk::{Disk, RealDisk};
use zoolet_storage::log::{LogEnd, LogItem, LogReader, follows};
use zoolet_storage::{LogFile, StorageError, StorageOptions};

use super::print::{Detail, txn_line};
use super::progress::Progress;
use super::{Source, json, zxid};
use crate::failure::Failure;
use crate::output::{Lines, warn};

/// How often `--follow` looks for more.
const POLL: Duration = Duration::from_millis(100);

/// The arguments of `zoolet data log`.
#[derive(Debug, clap::Args)]
pub(crate) struct Log {
    #[command(flatten)]
    source: Source,

    /// Begin with this transaction, such as 0x2b, or the first one after it
    #[arg(long, value_name = "ZXID", value_parser = zxid, default_value = "0x0", hide_default_value = true)]
    from: Zxid,

    /// End with this transaction
    #[arg(long, value_name = "ZXID", value_parser = zxid, conflicts_with = "follow")]
    to: Option<Zxid>,

    /// Go on with what a server writes, until interrupted. Includes transactions that are not durable yet
    #[arg(long)]
    follow: bool,

    /// Print a JSON object for each transaction, each in a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    detail: Detail,
}

impl Log {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let options = self.source.options()?;
        let mut printer = Printer {
            arguments: &self,
            lines: Lines::new(),
            last: None,
            damaged: false,
            progress: Progress::beside_lines("reading"),
            done: 0,
            total: 0,
        };
        if self.follow {
            printer.follow(&options)?;
        } else {
            printer.print_all(&options)?;
        }
        printer.lines.flush()?;
        Ok(if printer.damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Prints what it reads, and reports on stderr what cannot be read.
struct Printer<'a> {
    arguments: &'a Log,
    lines: Lines,
    /// The last transaction that was read.
    last: Option<Zxid>,
    /// Whether damage was found, or transactions are missing.
    damaged: bool,
    progress: Progress,
    /// The bytes of the files that are read to their ends.
    done: u64,
    /// The bytes of all files.
    total: u64,
}

impl Printer<'_> {
    fn print_all(&mut self, options: &StorageOptions) -> Result<(), Failure> {
        let files = LogFile::list(&RealDisk, options)?;
        // A file is named after its first transaction, so the last one that begins at `from` or before it has it.
        let needed = files.iter().rposition(|file| file.first <= self.arguments.from).unwrap_or(0);
        self.total = files[needed.min(files.len())..].iter().map(|file| file.len).sum();
        let mut files = files.into_iter().skip(needed).peekable();
        while let Some(LogFile { path, len, .. }) = files.next() {
            let next_file = files.peek().map(|file| file.first);
            // As long as something can be read after damage, the rest of the file is printed as well.
            let mut reader = self.open(&path)?;
            let mut end = self.print_entries(&mut reader)?;
            while let Some(offset) = self.report(&path, end, next_file) {
                reader.resume_at(offset);
                end = self.print_entries(&mut reader)?;
            }
            if self.is_done() {
                break;
            }
            // Whole files, as the entries may end long before the file does.
            self.done += len;
        }
        Ok(())
    }

    /// Prints the transactions so far, and then each new one, until interrupted.
    fn follow(&mut self, options: &StorageOptions) -> Result<(), Failure> {
        // A file and how far it is read.
        let mut current: Option<(LogFile, u64)> = None;
        loop {
            // In this order: when a later file exists, this one is complete.
            let next = self.file_after(options, current.as_ref().map(|(file, _)| file.first))?;
            if let Some((file, offset)) = &mut current {
                *offset = self.print_more(&file.path, *offset)?;
            }
            self.lines.flush()?;
            match next {
                Some(file) => current = Some((file, 0)),
                None => sleep(POLL),
            }
        }
    }

    /// The first file after that one, or the one to begin with.
    fn file_after(
        &self,
        options: &StorageOptions,
        current: Option<Zxid>,
    ) -> Result<Option<LogFile>, Failure> {
        let mut files = LogFile::list(&RealDisk, options)?;
        let n = match current {
            Some(current) => files.iter().position(|file| file.first > current),
            None => files.iter().rposition(|file| file.first <= self.arguments.from).or(Some(0)),
        };
        Ok(n.filter(|n| *n < files.len()).map(|n| files.swap_remove(n)))
    }

    /// Prints what was added to a file after `offset`, and returns how far it is read.
    fn print_more(&mut self, path: &Path, offset: u64) -> Result<u64, Failure> {
        let file = match RealDisk.open(path) {
            Ok(file) => file,
            // Purged.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(offset),
            Err(source) => return Err(StorageError::io("open", path)(source).into()),
        };
        // A file is extended with zeros in advance. A reader would search all of them for an entry after damage.
        let mut prefix = [0; 12];
        let read = file.read_at(&mut prefix, offset).map_err(StorageError::io("read", path))?;
        if offset > 0 && prefix[..read].iter().all(|byte| *byte == 0) {
            return Ok(offset);
        }
        let mut reader = LogReader::new(file, path)?;
        if offset > 0 {
            reader.resume_at(offset);
        }
        // Bad bytes may be an entry that is being written.
        Ok(self.print_entries(&mut reader)?.offset())
    }

    fn open(&self, path: &Path) -> Result<LogReader, Failure> {
        let file = RealDisk.open(path).map_err(StorageError::io("open", path))?;
        Ok(LogReader::new(file, path)?)
    }

    /// Prints the entries of a file, up to its end or to damage.
    fn print_entries(&mut self, reader: &mut LogReader) -> Result<LogEnd, Failure> {
        loop {
            match reader.next()? {
                LogItem::Entry(entry) => {
                    // Once in 100 kB or so.
                    if self.total > 0 && entry.txn.zxid.0 % 1_024 == 0 {
                        self.progress.report(self.done + entry.offset, self.total);
                    }
                    self.print(&entry.txn)?;
                    if self.is_done() {
                        return Ok(LogEnd::Clean { offset: entry.offset + entry.len });
                    }
                }
                LogItem::End(end) => return Ok(end),
            }
        }
    }

    fn print(&mut self, txn: &Txn) -> Result<(), Failure> {
        let Log { from, json, detail, .. } = self.arguments;
        // Apache logs a refused write that it cannot decode with the zxid of the one before.
        let repeats = self.last == Some(txn.zxid) && matches!(txn.op, TxnOp::Error(_));
        if let Some(last) = self.last.filter(|last| !repeats && !follows(*last, txn.zxid)) {
            self.damaged = true;
            warn(&format!("after transaction {last} comes {}", txn.zxid));
        }
        self.last = Some(txn.zxid);
        if txn.zxid < *from || self.arguments.to.is_some_and(|to| txn.zxid > to) {
            return Ok(());
        }
        self.lines.line(&if *json { json::txn(txn, *detail) } else { txn_line(txn, *detail) })
    }

    /// Reports how a file ends. Returns where to go on in it, if there is more after damage.
    fn report(&mut self, path: &Path, end: LogEnd, next_file: Option<Zxid>) -> Option<u64> {
        let (offset, fault, next) = match end {
            LogEnd::Torn { offset, fault } => (offset, fault, None),
            LogEnd::Damaged { offset, fault, next } => (offset, fault, next),
            _ => return None,
        };
        let at = format!("{}, byte {offset}: {fault}", path.display());
        // A server that started after a torn write cuts that off, or begins a new file where it was. Nothing is lost then.
        let continued = next_file.is_some() && self.last.map(Zxid::next) == next_file;
        self.damaged |= !continued && matches!(end, LogEnd::Damaged { .. });
        warn(&match (end, next) {
            _ if continued => format!("{at}; the next file goes on from here"),
            (LogEnd::Torn { .. }, _) => format!(
                "{at}: the last write was not finished; unless a server is writing, the next one cuts the file here"
            ),
            (_, Some((_, zxid))) => format!("{at}; going on with transaction {zxid}"),
            (_, None) => at,
        });
        next.filter(|_| !continued).map(|(offset, _)| offset)
    }

    fn is_done(&self) -> bool {
        self.arguments.to.is_some_and(|to| self.last.is_some_and(|last| last >= to))
    }
}
