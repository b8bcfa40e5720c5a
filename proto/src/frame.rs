//! Frames: a length, then as many bytes. And the four-letter words, which a server must tell apart from lengths.

use bytes::{BufMut, BytesMut};

/// Longest frame a server takes and the Java client reads: the default of `jute.maxbuffer`, inclusive.
pub const DEFAULT_MAX_FRAME: usize = 0xf_ffff;

/// Bytes of the length prefix.
pub const PREFIX: usize = 4;

/// A length prefix that no frame can have. The connection is beyond repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {length} bytes, where 1 to {max} are legal")]
pub struct BadLength {
    /// The length as it stood on the wire.
    pub length: i32,
    /// The limit it was held against.
    pub max: usize,
}

/// The first frame in `bytes` without its prefix; `None` while it is not whole.
///
/// Its bytes in the buffer are `PREFIX + frame.len()`; what stands behind is the next frame.
///
/// # Errors
/// [`BadLength`], told as soon as the prefix is there: for zero, a negative length, and one past `max`.
pub fn split(bytes: &[u8], max: usize) -> Result<Option<&[u8]>, BadLength> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(None) };
    let length = i32::from_be_bytes(*prefix);
    match usize::try_from(length) {
        Ok(len) if len >= 1 && len <= max => Ok(rest.get(..len)),
        _ => Err(BadLength { length, max }),
    }
}

/// Appends a frame whose payload `fill` appends.
pub fn put(out: &mut BytesMut, fill: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_i32(0);
    fill(out);
    let length = i32::try_from(out.len() - start - PREFIX).unwrap_or(i32::MAX);
    out[start..start + PREFIX].copy_from_slice(&length.to_be_bytes());
}

macro_rules! words {
    ($($(#[$meta:meta])* $row:ident = $name:literal $text:literal,)*) => {
        /// A four-letter word: an operator's command, sent instead of a connect request
        /// (`FourLetterCommands`). All are larger than any legal length when read as one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum FourLetterWord { $($(#[$meta])* $row,)* }

        impl FourLetterWord {
            /// Every word.
            pub const ALL: &'static [Self] = &[$(Self::$row,)*];

            /// The word that the first bytes of a connection are, if they are one.
            pub fn from_bytes(bytes: [u8; 4]) -> Option<Self> {
                $(if bytes == *$text { return Some(Self::$row); })*
                None
            }

            /// The bytes on the wire.
            pub fn bytes(self) -> [u8; 4] {
                match self { $(Self::$row => *$text,)* }
            }

            /// The word as text; the telnet interrupt, which is no text, is `telnet close`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$row => $name,)* }
            }

            /// The word of this name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.name() == name)
            }
        }
    };
}

words! {
    /// The configuration.
    Conf = "conf" b"conf",
    /// The connections, a line each.
    Cons = "cons" b"cons",
    /// Resets the counters of every connection.
    Crst = "crst" b"crst",
    /// Sizes of the data directories.
    Dirs = "dirs" b"dirs",
    /// Sessions and ephemerals.
    Dump = "dump" b"dump",
    /// The environment.
    Envi = "envi" b"envi",
    /// The trace mask.
    Gtmk = "gtmk" b"gtmk",
    /// Whether the process answers.
    Ruok = "ruok" b"ruok",
    /// Sets the trace mask.
    Stmk = "stmk" b"stmk",
    /// Resets the counters of the server.
    Srst = "srst" b"srst",
    /// The state of the server.
    Srvr = "srvr" b"srvr",
    /// The state of the server and its connections.
    Stat = "stat" b"stat",
    /// Watches by session.
    Wchc = "wchc" b"wchc",
    /// Watches by path.
    Wchp = "wchp" b"wchp",
    /// How many watches there are.
    Wchs = "wchs" b"wchs",
    /// Every metric.
    Mntr = "mntr" b"mntr",
    /// Whether the server is read-only.
    Isro = "isro" b"isro",
    /// Digests of the tree.
    Hash = "hash" b"hash",
    /// What telnet sends on an interrupt.
    TelnetClose = "telnet close" b"\xff\xf4\xff\xfd",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_given_when_it_is_whole() {
        let wire = [0, 0, 0, 2, 7, 8, 9];
        for cut in 0..6 {
            assert_eq!(split(&wire[..cut], 10), Ok(None), "{cut} bytes");
        }
        assert_eq!(split(&wire, 10), Ok(Some(&wire[4..6])));
    }

    #[test]
    fn zero_negative_and_oversize_lengths_are_refused_at_the_prefix() {
        for length in [0, -1, i32::MIN, DEFAULT_MAX_FRAME as i32 + 1, i32::MAX] {
            let refusal = BadLength { length, max: DEFAULT_MAX_FRAME };
            assert_eq!(split(&length.to_be_bytes(), DEFAULT_MAX_FRAME), Err(refusal));
        }
        assert_eq!(split(&(DEFAULT_MAX_FRAME as i32).to_be_bytes(), DEFAULT_MAX_FRAME), Ok(None));
    }

    #[test]
    fn no_four_letter_word_is_a_legal_length() {
        for word in FourLetterWord::ALL {
            assert_eq!(FourLetterWord::from_bytes(word.bytes()), Some(*word));
            assert!(split(&word.bytes(), DEFAULT_MAX_FRAME).is_err(), "{}", word.name());
        }
    }
}
