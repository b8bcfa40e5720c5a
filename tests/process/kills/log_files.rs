//! The transactions in the log files of a data directory, which decide what happened to requests without a reply.
//!
//! This reader is naive and shares no code with the storage of the server: what judges it must not have its mistakes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use zoolet::server::{Txn, TxnOp};
use zoolet_proto::{Acl, AclList, ErrorCode, Perms, SessionId, Xid, Zxid};
use zoolet_server_core::{Millis, Owner};

const MAGIC: &[u8] = b"ZKLG";
const FILE_HEADER: usize = 16;
const ENTRY_HEADER: usize = 12;
const END: u8 = b'B';

/// The log files of a directory, kept although the server purges them: hard links to them in another directory.
pub struct KeptLogs {
    from: PathBuf,
    to: PathBuf,
}

impl KeptLogs {
    /// Of the server's data directory, on the same file system as `to`.
    pub fn new(data: &Path, to: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&to)?;
        Ok(Self { from: data.join("version-2"), to })
    }

    /// Keeps the files that exist now. Call it while no server runs.
    pub fn keep(&self) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(&self.from) else { return Ok(()) };
        for entry in entries {
            let name = entry?.file_name();
            if name.to_string_lossy().starts_with("log.") {
                // A file that a server began anew has the name of the old one.
                let kept = self.to.join(&name);
                drop(fs::remove_file(&kept));
                fs::hard_link(self.from.join(&name), kept)?;
            }
        }
        Ok(())
    }

    /// All transactions, in the order of the files. Each file ends at the first entry that is not whole.
    ///
    /// # Errors
    /// What is wrong, with the file.
    pub fn transactions(&self) -> Result<Vec<Txn>, String> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.to).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            let number = path.extension().and_then(|hex| i64::from_str_radix(hex.to_str()?, 16).ok());
            files.push((number.ok_or(format!("{}: no zxid in its name", path.display()))?, path));
        }
        files.sort();
        let mut txns = Vec::new();
        for (first, path) in files {
            let bytes = fs::read(&path).map_err(|error| error.to_string());
            let found =
                bytes.and_then(|bytes| parse(&bytes)).map_err(|why| format!("{}: {why}", path.display()))?;
            match found.first() {
                Some(txn) if txn.zxid.0 != first => {
                    return Err(format!("{}: its first entry is {}", path.display(), txn.zxid));
                }
                _ => txns.extend(found),
            }
        }
        Ok(txns)
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Txn>, String> {
    if !bytes.starts_with(MAGIC) {
        return Err("not a log file".to_owned());
    }
    let mut rest = bytes.get(FILE_HEADER..).unwrap_or_default();
    let mut txns = Vec::new();
    while let Some((payload, after)) = next_entry(rest) {
        let mut fields = Fields(payload);
        let at = bytes.len() - rest.len();
        txns.push(txn(&mut fields).ok_or(format!("the entry at {at} does not decode"))?);
        rest = after;
    }
    Ok(txns)
}

/// The payload of the first entry and the bytes after it; `None` if it is not whole.
fn next_entry(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut header = Fields(bytes.get(..ENTRY_HEADER)?);
    let (sum, len) = (header.long()?, usize::try_from(header.int()?).ok()?);
    let (payload, rest) = bytes[ENTRY_HEADER..].split_at_checked(len)?;
    let whole = len > 0 && rest.first() == Some(&END) && sum == i64::from(adler32(payload));
    whole.then(|| (payload, &rest[1..]))
}

fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1, 0);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

fn txn(fields: &mut Fields<'_>) -> Option<Txn> {
    let session = SessionId(fields.long()?);
    let (xid, zxid) = (Xid(fields.int()?), Zxid(fields.long()?));
    let (time, kind) = (Millis(fields.long()?), fields.int()?);
    // The tree's digest may follow. It is not needed here.
    Some(Txn { session, xid, zxid, time, op: op(kind, session, fields)?, digest: None })
}

fn op(kind: i32, session: SessionId, fields: &mut Fields<'_>) -> Option<TxnOp> {
    Some(match kind {
        -10 => TxnOp::CreateSession { timeout: fields.int()? },
        -11 => {
            let count = fields.int()?;
            TxnOp::CloseSession { ephemerals: (0..count).map(|_| fields.path()).collect::<Option<_>>()? }
        }
        -1 => TxnOp::Error(ErrorCode::from_code(fields.int()?)?),
        1 | 15 | 19 | 21 => create(kind, session, fields)?,
        2 | 20 => TxnOp::Delete { path: fields.path()? },
        5 => TxnOp::SetData { path: fields.path()?, data: fields.buffer()?, version: fields.int()? },
        7 => TxnOp::SetAcl { path: fields.path()?, acl: fields.acl()?, aversion: fields.int()? },
        13 => {
            let (path, _version) = (fields.path()?, fields.int()?);
            TxnOp::Check { path }
        }
        14 => multi(session, fields)?,
        _ => return None,
    })
}

fn create(kind: i32, session: SessionId, fields: &mut Fields<'_>) -> Option<TxnOp> {
    let (path, data, acl) = (fields.path()?, fields.buffer()?, fields.acl()?);
    let ephemeral = matches!(kind, 1 | 15) && fields.byte()? != 0;
    let parent_creates = i64::from(fields.int()?);
    let owner = match kind {
        19 => Owner::CONTAINER,
        21 => Owner::ttl(fields.long()?)?,
        _ if ephemeral => Owner::session(session),
        _ => Owner::PERSISTENT,
    };
    Some(TxnOp::Create { path, data, acl, owner, parent_creates })
}

fn multi(session: SessionId, fields: &mut Fields<'_>) -> Option<TxnOp> {
    let mut ops = Vec::new();
    for _ in 0..fields.int()? {
        let (kind, body) = (fields.int()?, fields.buffer()??);
        ops.push(op(kind, session, &mut Fields(&body))?);
    }
    // Apache writes a refused multi with the error in place of the part that failed, and another one for each part after it.
    let refused = ops.iter().find_map(|op| match op {
        TxnOp::Error(code) => Some(*code),
        _ => None,
    });
    Some(refused.map_or(TxnOp::Multi(ops), TxnOp::Error))
}

/// The fields that are not read yet.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn int(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    /// Bytes or null.
    #[allow(clippy::option_option, reason = "null is a value")]
    fn buffer(&mut self) -> Option<Option<Bytes>> {
        let len = self.int()?;
        if len == -1 {
            return Some(None);
        }
        let (field, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(Some(Bytes::copy_from_slice(field)))
    }

    fn string(&mut self) -> Option<String> {
        String::from_utf8(self.buffer()??.to_vec()).ok()
    }

    fn path(&mut self) -> Option<Arc<str>> {
        self.string().map(Arc::from)
    }

    fn acl(&mut self) -> Option<AclList> {
        let count = self.int()?;
        let entries = (0..count).map(|_| Some(Acl::new(Perms(self.int()?), self.string()?, self.string()?)));
        entries.collect::<Option<Vec<_>>>().map(AclList::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of a log file of Apache ZooKeeper 3.9.5: the header, and the first session.
    const FILE: [u8; 77] = [
        0x5a, 0x4b, 0x4c, 0x47, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, // header
        0, 0, 0, 0, 0x98, 0x41, 0x09, 0x17, 0, 0, 0, 0x30, // checksum and length
        0x01, 0, 0, 0x0a, 0x56, 0x09, 0, 0, 0, 0, 0, 0, // session and xid
        0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0x01, 0xa1, 0xf8, 0x02, 0x65, 0x31, // zxid and time
        0xff, 0xff, 0xff, 0xf6, 0, 0, 0x27, 0x10, // type and timeout
        0, 0, 0, 2, 0, 0, 0, 0, 0x51, 0xc6, 0xd6, 0x60, b'B', // digest and end
    ];

    #[test]
    fn an_entry_of_an_apache_zookeeper_is_read_with_padding_after_it() {
        let txns = parse(&[&FILE[..], &[0; 100]].concat()).expect("a log file");
        assert_eq!(txns.len(), 1);
        let Txn { session, zxid, time, op, .. } = &txns[0];
        assert_eq!(
            (*session, *zxid, *time),
            (SessionId(0x0100_000a_5609_0000), Zxid(1), Millis(0x01a1_f802_6531))
        );
        assert!(matches!(op, TxnOp::CreateSession { timeout: 10_000 }), "{op:?}");
    }

    #[test]
    fn a_file_ends_at_an_entry_that_is_not_whole() {
        for len in FILE_HEADER..FILE.len() {
            assert_eq!(parse(&FILE[..len]).map(|txns| txns.len()), Ok(0), "cut at {len}");
        }
        for at in FILE_HEADER..FILE.len() {
            let mut damaged = FILE;
            damaged[at] ^= 1;
            assert_eq!(parse(&damaged).map(|txns| txns.len()), Ok(0), "byte {at}");
        }
    }
}
