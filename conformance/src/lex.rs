//! Splits a line of a case into tokens.

use std::fmt;

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// Anything without spaces and signs.
    Word(String),
    /// What stands between quotes, escapes resolved.
    Text(Vec<u8>),
    /// `->`
    Arrow,
    /// One of `{ } [ ] ; =`
    Sign(char),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "`{word}`"),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Arrow => f.write_str("`->`"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
        }
    }
}

/// Splits a line. Fails with what is wrong.
pub(crate) fn tokens(line: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut chars = line.chars().peekable();
    while let Some(&first) = chars.peek() {
        match first {
            ' ' => _ = chars.next(),
            '{' | '}' | '[' | ']' | ';' | '=' => {
                chars.next();
                tokens.push(Token::Sign(first));
            }
            '"' => {
                chars.next();
                tokens.push(Token::Text(text(&mut chars)?));
            }
            _ => {
                let mut word = String::new();
                while let Some(next) = chars.next_if(|next| !" {}[];=\"".contains(*next)) {
                    word.push(next);
                }
                tokens.push(if word == "->" { Token::Arrow } else { Token::Word(word) });
            }
        }
    }
    Ok(tokens)
}

fn text(chars: &mut impl Iterator<Item = char>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let hex = |chars: &mut dyn Iterator<Item = char>| {
        let digits: String = chars.take(2).collect();
        u8::from_str_radix(&digits, 16).map_err(|_| format!("\\x{digits} is not two hexadecimal digits"))
    };
    loop {
        match chars.next() {
            None => return Err("a quote is missing".to_owned()),
            Some('"') => return Ok(bytes),
            Some('\\') => match chars.next() {
                Some('x') => bytes.push(hex(chars)?),
                Some('n') => bytes.push(b'\n'),
                Some(sign @ ('"' | '\\')) => bytes.push(sign as u8),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!("unknown escape \\{other}; known are \\xHH \\n \\\" \\\\"));
                }
            },
            Some(other) => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
}

/// Writes bytes so that they are read again as they were, and so that each of them can be seen.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(*byte)]),
            b'\n' => out.push_str("\\n"),
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_read_again() {
        for bytes in [&b"a \"b\" \\ \n\x00\x7f"[..], "ä€".as_bytes(), b"\xff\xfea\xc3"] {
            assert_eq!(tokens(&quoted(bytes)), Ok(vec![Token::Text(bytes.to_vec())]));
        }
    }

    #[test]
    fn a_line_has_words_texts_and_signs() {
        let word = |word: &str| Token::Word(word.to_owned());
        let line = "A create ~/n \"x y\" flags=1 -> ok";
        let expected = [
            word("A"),
            word("create"),
            word("~/n"),
            Token::Text(b"x y".to_vec()),
            word("flags"),
            Token::Sign('='),
            word("1"),
            Token::Arrow,
            word("ok"),
        ];
        assert_eq!(tokens(line).unwrap(), expected);
        assert!(tokens("\"x").is_err() && tokens("\"\\q\"").is_err());
    }
}
