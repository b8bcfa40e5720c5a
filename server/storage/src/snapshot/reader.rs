//! [`SnapshotReader`]: a snapshot of any server from 3.6 on, znode by znode.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Buf;
use zoolet_proto::{Acl, AclList, Perms, SessionId, Zxid, jute};
use zoolet_server_core::{Owner, ZnodeRecord};

use super::file;
use super::format::{DIGEST_VERSION, MAGIC, OPEN_ACL, TERMINATOR, VERSION};
use super::source::Source;
use crate::disk::Disk;
use crate::error::{Damage, StorageError};
use crate::options::Compression;
use crate::text;

/// Reads a snapshot: plain, gzip or snappy, by the last extension of its name. Sessions and access control lists are kept in
/// memory, znodes are not.
///
/// After the last znode [`next_znode`](Self::next_znode) returns `None` only if all checksums are right and nothing follows.
/// Only [`check`](Self::check) verifies that the znodes form a tree. A caller that builds one reports a violation with
/// [`refuse`](Self::refuse).
#[derive(Debug)]
pub struct SnapshotReader {
    pub(super) source: Source,
    /// The zxid in the name, if it has one.
    pub(super) named: Option<Zxid>,
    pub(super) sessions: Vec<(SessionId, i32)>,
    /// The lists of the table, and the open one.
    pub(super) acls: HashMap<i64, AclList>,
    /// The id and the list of the last znode: most znodes have the same as the one before.
    last_acl: (i64, AclList),
    /// An empty list, for znodes whose list is not in the table.
    no_acl: AclList,
    pub(super) missing_acls: Vec<MissingAcl>,
    /// See [`restored_at`](Self::restored_at).
    restored_at: Option<Zxid>,
    pub(super) znodes: u64,
    /// Where the last znode begins.
    at: u64,
    complete: bool,
    pub(super) digest: Option<SnapshotDigest>,
    pub(super) last_zxid: Option<Zxid>,
}

/// The section of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotDigest {
    /// The transaction after which the tree has this digest. It may be later than the zxid in the name, as Apache writes a
    /// snapshot while the tree changes, and is 0 if the server had not executed a transaction.
    pub zxid: Zxid,
    /// The digest, if it is of the version that is in use since 3.7; older ones count other things.
    pub digest: Option<u64>,
}

/// A znode whose access control list is not in the snapshot's table. Its record has an empty list.
///
/// Apache copies the table before the znodes, and lets transactions change both meanwhile. Then the log after the snapshot sets
/// the list of the znode or deletes it. If it does neither, the list is lost, and the directory must be refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingAcl {
    /// The path of the znode.
    pub path: Arc<str>,
    /// What to report if the log does not set the list.
    pub damage: Damage,
}

impl SnapshotReader {
    /// Opens a snapshot, and reads what is before the znodes.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged so far.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Self, StorageError> {
        Self::open_as(disk, path, Compression::of_name(path))
    }

    /// As [`open`](Self::open), of a file whose name says nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) fn open_as(
        disk: &dyn Disk,
        path: &Path,
        compression: Compression,
    ) -> Result<Self, StorageError> {
        let mut source = Source::open(disk, path, compression)?;
        if source.array("the header")? != MAGIC {
            return Err(source.damage(0, "this is not a snapshot: it does not begin with ZKSN").into());
        }
        let version = source.int("the header")?;
        if version != VERSION {
            return Err(source.damage(4, format!("version {version} of the format is unknown")).into());
        }
        // Apache writes -1 for the id of the database, and does not look at it.
        let restored_at = Some(Zxid(source.long("the header")?)).filter(|zxid| *zxid > Zxid(0));
        let sessions = sessions(&mut source)?;
        let mut acls = acls(&mut source)?;
        acls.insert(OPEN_ACL, AclList::OPEN);
        Ok(Self {
            named: path.file_name().and_then(|name| file::zxid_of(name.to_str()?)),
            sessions,
            acls,
            last_acl: (OPEN_ACL, AclList::OPEN),
            no_acl: Vec::new().into(),
            missing_acls: Vec::new(),
            restored_at,
            znodes: 0,
            at: source.offset(),
            complete: false,
            digest: None,
            last_zxid: None,
            source,
        })
    }

    /// The transaction at which all of the tree was replaced by another snapshot, if it ever was.
    pub fn restored_at(&self) -> Option<Zxid> {
        self.restored_at
    }

    /// The sessions with their timeouts in milliseconds.
    pub fn sessions(&self) -> &[(SessionId, i32)] {
        &self.sessions
    }

    /// The next znode, in the order of the file, which begins with the root. `None` after the last one, when everything after it
    /// has been checked as well.
    ///
    /// # Errors
    /// If the file cannot be read or is damaged. Do not call it again then.
    pub fn next_znode(&mut self) -> Result<Option<ZnodeRecord>, StorageError> {
        if self.complete {
            return Ok(None);
        }
        self.at = self.source.offset();
        let Some(path) = self.path()? else {
            self.trailer()?;
            self.complete = true;
            return Ok(None);
        };
        let data = self.source.field("the data of a znode")?.map(jute::copied);
        let stat: [u8; 68] = self.source.array("the stat of a znode")?;
        let mut stat = &stat[..];
        let acl = self.acl(stat.get_i64(), &path);
        self.znodes += 1;
        Ok(Some(ZnodeRecord {
            path,
            data,
            acl,
            czxid: Zxid(stat.get_i64()),
            mzxid: Zxid(stat.get_i64()),
            ctime: stat.get_i64(),
            mtime: stat.get_i64(),
            version: stat.get_i32(),
            // The file has the low 32 bits of the counter.
            creates: i64::from(stat.get_u32()),
            aversion: stat.get_i32(),
            owner: Owner::from_code(stat.get_i64()),
            pzxid: Zxid(stat.get_i64()),
        }))
    }

    /// The znodes so far whose access control list is not in the table.
    pub fn missing_acls(&self) -> &[MissingAcl] {
        &self.missing_acls
    }

    /// The digest, after the last znode.
    pub fn digest(&self) -> Option<SnapshotDigest> {
        self.digest
    }

    /// The zxid of the last transaction that may be in it, after the last znode. Replay begins after the zxid in the name.
    pub fn last_zxid(&self) -> Option<Zxid> {
        self.last_zxid
    }

    /// How many bytes of the file have been read, and how many it has.
    pub fn progress(&self) -> (u64, u64) {
        self.source.progress()
    }

    /// Damage that the last znode shows.
    pub fn refuse(&self, reason: impl Into<String>) -> Damage {
        self.source.damage(self.at, reason)
    }

    /// The path of the next znode; `None` for what stands in its place after the last one.
    fn path(&mut self) -> Result<Option<Arc<str>>, StorageError> {
        let root = self.znodes == 0;
        let checked = match self.source.field("a path")? {
            None => Err("a znode has no path"),
            Some(b"/") if root => Err("there is no root"),
            Some(b"/") => return Ok(None),
            Some(b"") if root => Ok(Arc::from("/")),
            Some(_) if root => Err("the first znode is not the root"),
            Some(b"") => Err("the root is there twice"),
            Some(path) => match std::str::from_utf8(path) {
                Ok(path) if path.starts_with('/') && !path.ends_with('/') => Ok(Arc::from(path)),
                Ok(_) => Err("a path does not begin with a slash, or ends with one"),
                Err(_) => Err("a path is not UTF-8"),
            },
        };
        checked.map(Some).map_err(|reason| self.refuse(reason).into())
    }

    fn acl(&mut self, id: i64, path: &Arc<str>) -> AclList {
        if id != self.last_acl.0 {
            let found = match self.acls.get(&id) {
                Some(acl) => acl.clone(),
                None => {
                    let damage =
                        self.refuse(format!("the ACL {id} of the znode {path} is not in the snapshot"));
                    self.missing_acls.push(MissingAcl { path: Arc::clone(path), damage });
                    return self.no_acl.clone();
                }
            };
            self.last_acl = (id, found);
        }
        self.last_acl.1.clone()
    }

    /// Reads what follows the last znode: one to three checksums, perhaps a digest, perhaps the last zxid.
    fn trailer(&mut self) -> Result<(), StorageError> {
        const SEAL: usize = 13;
        self.seal()?;
        let at = self.source.offset();
        // The longest trailer has a digest of an old version, as hex digits, and the last zxid.
        let rest = self.source.peek(128)?;
        let left = rest.len();
        let version = rest.get(8..12).map_or(DIGEST_VERSION, |mut version| version.get_i32());
        let digest_len = match rest.get(12..16) {
            _ if version >= DIGEST_VERSION => 20,
            // Null, or the digits.
            Some(&[0xff, 0xff, 0xff, 0xff]) => 16,
            Some(&[0, 0, 0, len @ ..=16]) => 16 + usize::from(len),
            _ => usize::MAX,
        };
        // Nothing says which sections follow: their lengths tell. The last zxid has 8 bytes, a digest at least 16.
        let (with_digest, with_last) = match left {
            0 => (false, false),
            left if left == 8 + SEAL => (false, true),
            left if Some(left) == digest_len.checked_add(SEAL) => (true, false),
            left if Some(left) == digest_len.checked_add(SEAL + 8 + SEAL) => (true, true),
            left => {
                let more = if left < 128 { "" } else { " and more" };
                let reason = format!(
                    "{left} bytes{more} after the first checksum are neither a digest nor a last zxid"
                );
                return Err(self.source.damage(at, reason).into());
            }
        };
        if with_digest {
            let zxid = Zxid(self.source.long("the digest")?);
            let rest = self.source.take(digest_len - 8, "the digest")?;
            let current = version == DIGEST_VERSION;
            let digest = rest.last_chunk().filter(|_| current).map(|digest| u64::from_be_bytes(*digest));
            self.digest = Some(SnapshotDigest { zxid, digest });
            self.seal()?;
        }
        if with_last {
            let at = self.source.offset();
            let last = Zxid(self.source.long("the last zxid")?);
            self.seal()?;
            if let Some(named) = self.named.filter(|named| *named > last) {
                let reason = format!("its name says zxid {named}, but it ends at {last}: it was renamed");
                return Err(self.source.damage(at, reason).into());
            }
            self.last_zxid = Some(last);
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), StorageError> {
        let at = self.source.offset();
        let sum = i64::from(self.source.checksum());
        let stored = self.source.long("a checksum")?;
        if stored != sum {
            let reason =
                format!("the checksum of the bytes before is {sum:#x}, and the file says {stored:#x}");
            return Err(self.source.damage(at, reason).into());
        }
        if self.source.array("a checksum")? != TERMINATOR {
            return Err(self.source.damage(at + 8, "a checksum is not followed by a slash").into());
        }
        Ok(())
    }
}

fn sessions(source: &mut Source) -> Result<Vec<(SessionId, i32)>, StorageError> {
    const PART: &str = "the sessions";
    let mut sessions = Vec::new();
    let mut seen = HashSet::new();
    for _ in 0..source.count(PART)? {
        let at = source.offset();
        let session = SessionId(source.long(PART)?);
        let timeout = source.int(PART)?;
        if timeout < 0 {
            return Err(source.damage(at, format!("the session {session} has the timeout {timeout}")).into());
        }
        if !seen.insert(session) {
            return Err(source.damage(at, format!("the session {session} is there twice")).into());
        }
        sessions.push((session, timeout));
    }
    Ok(sessions)
}

fn acls(source: &mut Source) -> Result<HashMap<i64, AclList>, StorageError> {
    const PART: &str = "the table of ACLs";
    let mut acls = HashMap::new();
    for _ in 0..source.count(PART)? {
        let at = source.offset();
        let id = source.long(PART)?;
        if id == OPEN_ACL {
            return Err(source
                .damage(at, "the table of ACLs has the id -1, which a table does not have")
                .into());
        }
        let mut acl = Vec::new();
        for _ in 0..source.count("an ACL")? {
            let perms = Perms(source.int(PART)?);
            let scheme = string(source)?;
            acl.push(Acl { perms, scheme, id: string(source)? });
        }
        if acls.insert(id, acl.into()).is_some() {
            return Err(source.damage(at, format!("the table of ACLs has the id {id} twice")).into());
        }
    }
    Ok(acls)
}

/// A string of an ACL. Null is empty, as in the protocol.
fn string(source: &mut Source) -> Result<String, StorageError> {
    let at = source.offset();
    match source.field("the table of ACLs")? {
        None => Ok(String::new()),
        Some(bytes) => match text::decode(bytes) {
            Some(text) => Ok(text),
            None => Err(source.damage(at, "a string of an ACL is not UTF-8").into()),
        },
    }
}
