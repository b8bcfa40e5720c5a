//! The four-letter words, which a server must distinguish from the length of a frame.

macro_rules! words {
    ($($(#[$meta:meta])* $row:ident = $name:literal $text:literal,)*) => {
        /// A four-letter word: an operator's command, sent instead of a connect request
        /// (Apache's `FourLetterCommands`). Read as a frame length, each is larger than any allowed frame.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum FourLetterWord { $($(#[$meta])* $row,)* }

        impl FourLetterWord {
            /// Every word.
            pub const ALL: &'static [Self] = &[$(Self::$row,)*];

            /// The word of the first bytes of a connection, if they are one.
            pub fn from_bytes(bytes: [u8; 4]) -> Option<Self> {
                $(if bytes == *$text { return Some(Self::$row); })*
                None
            }

            /// The bytes on the wire.
            pub fn bytes(self) -> [u8; 4] {
                match self { $(Self::$row => *$text,)* }
            }

            /// The word as text; `telnet close` for the telnet interrupt, which is not text.
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
    use crate::frame::{DEFAULT_MAX_FRAME, split};

    #[test]
    fn no_four_letter_word_is_a_legal_length() {
        for word in FourLetterWord::ALL {
            assert_eq!(FourLetterWord::from_bytes(word.bytes()), Some(*word));
            assert!(split(&word.bytes(), DEFAULT_MAX_FRAME).is_err(), "{}", word.name());
        }
    }
}
