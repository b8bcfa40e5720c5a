//! Splits a line of a case into tokens, which a [`Cursor`] reads.

use std::fmt;

use crate::wire::fields::quoted;

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

/// The tokens of a line, and how many are read.
pub(crate) struct Cursor {
    tokens: Vec<Token>,
    at: usize,
}

impl Cursor {
    pub(crate) fn new(line: &str) -> Result<Self, String> {
        Ok(Self { tokens: tokens(line)?, at: 0 })
    }

    pub(crate) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    pub(crate) fn skip(&mut self) {
        self.at += 1;
    }

    pub(crate) fn is_at_end_of_request(&self) -> bool {
        matches!(self.peek(), None | Some(Token::Arrow | Token::Sign(';' | '}')))
    }

    /// The name in `name=`, which is read.
    pub(crate) fn key(&mut self) -> Option<String> {
        match &self.tokens[self.at..] {
            [Token::Word(name), Token::Sign('='), ..] => {
                let name = name.clone();
                self.at += 2;
                Some(name)
            }
            _ => None,
        }
    }

    /// Whether `name=` comes next.
    pub(crate) fn has_key(&self, name: &str) -> bool {
        matches!(&self.tokens[self.at..], [Token::Word(word), Token::Sign('='), ..] if word == name)
    }

    pub(crate) fn word(&mut self, what: &str) -> Result<String, String> {
        self.take(what, |token| if let Token::Word(word) = token { Some(word.clone()) } else { None })
    }

    pub(crate) fn text(&mut self, what: &str) -> Result<Vec<u8>, String> {
        self.take(what, |token| if let Token::Text(text) = token { Some(text.clone()) } else { None })
    }

    /// The next token, if it is `wanted`.
    fn take<T>(&mut self, what: &str, wanted: impl FnOnce(&Token) -> Option<T>) -> Result<T, String> {
        let taken = self.peek().and_then(wanted);
        self.at += usize::from(taken.is_some());
        taken.ok_or_else(|| format!("{what} is missing{}", found(self.peek())))
    }

    pub(crate) fn word_or_text(&mut self, what: &str) -> Result<Vec<u8>, String> {
        match self.peek() {
            Some(Token::Word(_)) => self.word(what).map(String::into_bytes),
            _ => self.text(what),
        }
    }

    /// `[a "b c"]`
    pub(crate) fn list(&mut self) -> Result<Vec<Vec<u8>>, String> {
        self.sign('[')?;
        let mut list = Vec::new();
        while !self.take_sign(']') {
            list.push(self.word_or_text("a `]`")?);
        }
        Ok(list)
    }

    pub(crate) fn sign(&mut self, sign: char) -> Result<(), String> {
        if self.take_sign(sign) {
            Ok(())
        } else {
            Err(format!("a `{sign}` is missing{}", found(self.peek())))
        }
    }

    pub(crate) fn take_sign(&mut self, sign: char) -> bool {
        self.take_token(&Token::Sign(sign))
    }

    /// Whether this token comes next, which is read then.
    pub(crate) fn take_token(&mut self, token: &Token) -> bool {
        let is_there = self.peek() == Some(token);
        self.at += usize::from(is_there);
        is_there
    }
}

fn found(token: Option<&Token>) -> String {
    token.map_or_else(|| " at the end of the line".to_owned(), |token| format!(" before {token}"))
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
