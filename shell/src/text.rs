//! What people read: paths, times, permissions, sizes.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use zoolet_client::{Acl, Perms, Stat};

/// A path or a name with everything escaped that would end the line or move the cursor.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}') {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Milliseconds since the epoch, in UTC.
pub(crate) fn time(millis: i64) -> String {
    let since = u64::try_from(millis).ok().map(Duration::from_millis);
    // The last year that is printed with four digits.
    match since.filter(|since| since.as_secs() < 253_402_300_800) {
        Some(since) => humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string(),
        None => millis.to_string(),
    }
}

/// The eleven fields, under the names that zkCli gives them.
pub(crate) fn stat(stat: &Stat) -> String {
    format!(
        "cZxid = {}\nctime = {}\nmZxid = {}\nmtime = {}\npZxid = {}\ncversion = {}\ndataVersion = {}\n\
         aclVersion = {}\nephemeralOwner = {}\ndataLength = {}\nnumChildren = {}\n",
        stat.czxid,
        time(stat.ctime),
        stat.mzxid,
        time(stat.mtime),
        stat.pzxid,
        stat.cversion,
        stat.version,
        stat.aversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
    )
}

/// An entry of an ACL, as `create` and `set-acl` read it.
pub(crate) fn acl_entry(entry: &Acl) -> String {
    format!("{}:{}:{:?}", entry.scheme, shown(&entry.id), entry.perms)
}

/// Reads `scheme:id:perms`, several with commas in between. The id may have colons, and commas as in the names of `x509`.
pub(crate) fn parse_acl(text: &str) -> Result<Vec<Acl>, String> {
    let mut entries: Vec<String> = Vec::new();
    for piece in text.split(',') {
        match entries.last_mut() {
            // The entry before has no permissions yet, so the comma is one of its id. A piece that is an entry by itself stays
            // one, so that a mistake in the permissions before it is reported.
            Some(entry) if parse_entry(entry).is_err() && parse_entry(piece).is_err() => {
                entry.push(',');
                entry.push_str(piece);
            }
            _ => entries.push(piece.to_owned()),
        }
    }
    entries.iter().map(|entry| parse_entry(entry)).collect()
}

fn parse_entry(text: &str) -> Result<Acl, String> {
    let form =
        || format!("{text:?} must be SCHEME:ID:PERMS, such as world:anyone:r or digest:bob:HASH:cdrwa");
    // `O=a:b` is a part of a name of `x509`.
    let scheme = text.split_once(':').filter(|(scheme, _)| !scheme.contains('='));
    let (scheme, rest) = scheme.ok_or_else(form)?;
    let (id, letters) = rest.rsplit_once(':').ok_or_else(form)?;
    let perms = parse_perms(letters).map_err(|why| format!("{text:?}: {why}"))?;
    if letters.is_empty() {
        return Err(form());
    }
    Ok(Acl::new(perms, scheme, id))
}

/// Whether an entry has a password where servers compare a hash, so that it would let nobody in. A hash is base64; the
/// shortest, of MD5, has 16 bytes (`DigestAuthenticationProvider.digestAlg`; SHA-1 is the default).
pub(crate) fn lacks_hash(entry: &Acl) -> bool {
    let Some((_, hash)) = entry.id.split_once(':').filter(|_| entry.scheme == "digest") else { return false };
    BASE64.decode(hash).map_or(true, |hash| hash.len() < 16)
}

/// The permissions by their names, of which people write the first letters.
pub(crate) const PERMISSIONS: [(&str, Perms); 5] = [
    ("create", Perms::CREATE),
    ("read", Perms::READ),
    ("write", Perms::WRITE),
    ("delete", Perms::DELETE),
    ("admin", Perms::ADMIN),
];

/// Reads permissions as they are shown.
pub(crate) fn parse_perms(letters: &str) -> Result<Perms, String> {
    letters.chars().try_fold(Perms::NONE, |perms, letter| {
        let known = PERMISSIONS.iter().find(|(name, _)| name.starts_with(letter));
        let unknown = || format!("{letter:?} is not a permission: they are c, d, r, w and a");
        Ok(perms | known.ok_or_else(unknown)?.1)
    })
}

/// Bytes as offset, hexadecimal and ASCII.
pub(crate) fn hexdump(bytes: &[u8]) -> String {
    let hex = |half: &[u8]| half.iter().map(|byte| format!(" {byte:02x}")).collect::<String>();
    let shown = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' };
    let line = |(number, line): (usize, &[u8])| {
        let (left, right) = line.split_at(line.len().min(8));
        let ascii: String = line.iter().map(shown).collect();
        format!("{:08x} {:<24} {:<24}  |{ascii}|\n", number * 16, hex(left), hex(right))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

/// A count with its noun.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acl_is_read_as_it_is_shown() {
        for text in
            ["world:anyone:cdrwa", "digest:bob:fyVmFCwVbTJYrznoSu1koqYEYF0=:r", "auth::cd", "ip:::1/64:r"]
        {
            let entries = parse_acl(text).unwrap();
            assert_eq!(acl_entry(&entries[0]), text);
        }
        assert_eq!(parse_acl("world:anyone:r,ip:10.0.0.1:w").unwrap().len(), 2);
        for text in ["", "world", "world:anyone", "world:anyone:", "world:anyone:rx"] {
            parse_acl(text).unwrap_err();
        }
    }

    #[test]
    fn an_id_may_have_commas() {
        let alice = r"CN=alice,OU=urn:eng:1,O=Acme\, Inc,C=US";
        let entries = parse_acl(&format!("world:anyone:r,x509:{alice}:cdrwa,x509:CN=bob,O=a:b:r")).unwrap();
        let ids: Vec<_> = entries.iter().map(|entry| &*entry.id).collect();
        assert_eq!(ids, ["anyone", alice, "CN=bob,O=a:b"]);
        assert_eq!(entries[1].perms, Perms::ALL);
        // A mistake in an entry does not make the next one a part of its id.
        for (text, why) in [
            ("sasl:bob:rx,world:anyone:r", "\"sasl:bob:rx\": 'x' is not a permission"),
            ("sasl:bob,world:anyone:r", "\"sasl:bob\" must be SCHEME:ID:PERMS"),
            ("world:anyone:r,", "\"\" must be SCHEME:ID:PERMS"),
        ] {
            let error = parse_acl(text).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_taken_for_its_hash() {
        let lacks = |text| lacks_hash(&parse_acl(text).unwrap()[0]);
        for text in ["digest:bob:pw:r", "digest:bob::r", "digest:bob:pass:word:r", "digest:bob:abcd:r"] {
            assert!(lacks(text), "{text}");
        }
        let sha_256 = "digest:bob:HZOQXCG8ZDVvwLNWTqyHbPg94mgEAdLgqDkTxJxqJ9E=:r";
        for text in ["digest:bob:fyVmFCwVbTJYrznoSu1koqYEYF0=:r", sha_256, "auth:bob:pw:r", "digest:bob:r"] {
            assert!(!lacks(text), "{text}");
        }
    }

    #[test]
    fn a_name_cannot_move_the_cursor_or_end_the_line() {
        assert_eq!(shown("/a\u{1b}[2J\nb\u{2028}é"), "/a\\u{1b}[2J\\nb\\u{2028}é");
        assert_eq!(shown("/a b"), "/a b");
    }

    #[test]
    fn a_dump_has_sixteen_bytes_in_a_line() {
        assert_eq!(
            hexdump(b"0123456789abcdef\xff"),
            "00000000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  |0123456789abcdef|\n\
             00000010  ff                                                |.|\n"
        );
    }

    #[test]
    fn times_are_utc_and_none_is_a_panic() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(i64::MAX), i64::MAX.to_string());
        assert_eq!(time(-1), "-1");
    }
}
