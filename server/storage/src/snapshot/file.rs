//! [`SnapshotFile`]: the names of snapshots.

use std::path::{Path, PathBuf};

use zoolet_proto::Zxid;

use crate::disk::DiskEntry;
use crate::options::Compression;

/// A file that a server takes for a snapshot, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotFile {
    /// The file.
    pub path: PathBuf,
    /// The zxid in its name: replay starts after it.
    pub zxid: Zxid,
    /// Its length in bytes.
    pub len: u64,
}

impl SnapshotFile {
    /// The snapshots among the entries of a directory, those with the highest zxid first. None of them has been opened.
    pub(crate) fn among(dir: &Path, entries: &[DiskEntry]) -> Vec<Self> {
        let mut files: Vec<Self> = entries.iter().filter_map(|entry| Self::of(dir, entry)).collect();
        // Of two with one zxid the shorter name first, which is the plain file.
        files.sort_unstable_by(|a, b| b.zxid.cmp(&a.zxid).then_with(|| a.path.cmp(&b.path)));
        files
    }

    /// The file of this entry of a directory, if it has the name of a snapshot.
    pub(crate) fn of(dir: &Path, entry: &DiskEntry) -> Option<Self> {
        let zxid = zxid_of(entry.name.to_str()?)?;
        entry.is_file.then(|| Self { path: dir.join(&entry.name), zxid, len: entry.len })
    }

    /// Whether its name is one that a server gives: no upper case, and nothing after the compression. Apache also loads
    /// `snapshot.28.bak`, which an operator may have made.
    pub(crate) fn has_usual_name(&self) -> bool {
        self.path.file_name() == Some(name(self.zxid, Compression::of_name(&self.path)).as_ref())
    }
}

/// The name of a snapshot.
pub(crate) fn name(zxid: Zxid, compression: Compression) -> String {
    let extension = match compression {
        Compression::None => "",
        Compression::Gzip => ".gz",
        Compression::Snappy => ".snappy",
    };
    format!("snapshot.{:x}{extension}", zxid.0)
}

/// The zxid in the name of a snapshot, as Apache parses it: whatever follows a second dot does not count.
pub(crate) fn zxid_of(name: &str) -> Option<Zxid> {
    let mut parts = name.split('.');
    let zxid = parts.next().filter(|prefix| *prefix == "snapshot").and(parts.next())?;
    i64::from_str_radix(zxid, 16).ok().filter(|zxid| *zxid >= 0).map(Zxid)
}

impl Compression {
    /// The compression of a snapshot, by the last extension of its name. With an unknown one it is taken for plain.
    pub(crate) fn of_name(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("snappy") => Self::Snappy,
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_apache_does() {
        for (name, zxid) in [
            ("snapshot.0", Some(0)),
            ("snapshot.28", Some(0x28)),
            ("snapshot.2A", Some(0x2a)),
            ("snapshot.100000001.gz", Some(0x1_0000_0001)),
            ("snapshot.28.tmp", Some(0x28)),
            ("snapshot.28.bak.gz", Some(0x28)),
            ("snapshot.7fffffffffffffff", Some(i64::MAX)),
            ("snapshot.8000000000000000", None),
            ("snapshot.-1", None),
            ("snapshot.0x28", None),
            ("snapshot.", None),
            ("snapshot", None),
            ("log.28", None),
            (".zoolet-snapshot-28.tmp", None),
        ] {
            assert_eq!(zxid_of(name), zxid.map(Zxid), "{name}");
        }
    }

    #[test]
    fn the_last_extension_decides_on_the_compression() {
        for (file, compression) in [
            ("snapshot.28", Compression::None),
            ("snapshot.28.gz", Compression::Gzip),
            ("snapshot.28.snappy", Compression::Snappy),
            ("snapshot.28.gz.bak", Compression::None),
            ("snapshot.28.bak.gz", Compression::Gzip),
            ("snapshot.28.zst", Compression::None),
        ] {
            assert_eq!(Compression::of_name(Path::new(file)), compression, "{file}");
        }
        for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
            let name = name(Zxid(0x2_0000_00af), compression);
            assert_eq!(Compression::of_name(Path::new(&name)), compression, "{name}");
            assert_eq!(zxid_of(&name), Some(Zxid(0x2_0000_00af)), "{name}");
        }
    }
}
