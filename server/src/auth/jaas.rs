//! JAAS files, as a JVM reads them (`sun.security.provider.ConfigFile`, over `java.io.StreamTokenizer`).
//!
//! ```text
//! Section {
//!     class.of.a.Module flag option=value option="value";
//! };
//! ```

use std::collections::HashSet;

use super::sasl_users::SaslUsers;

/// The longest file, in bytes.
const MAX_LEN: usize = 1 << 20;

/// Where a JAAS file is wrong. The text names no value of the file, which may be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
#[non_exhaustive]
pub struct JaasError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

/// The users of a section.
pub(super) fn users(text: &str, section: &str) -> Result<Option<SaslUsers>, JaasError> {
    if text.len() > MAX_LEN {
        return Err(JaasError { line: 1, reason: format!("the file is longer than {MAX_LEN} bytes") });
    }
    let mut parser = Parser { tokens: Tokenizer { rest: text, line: 1 }, next: JaasToken::End, line: 1 };
    parser.advance()?;
    let (mut found, mut names) = (None, HashSet::new());
    while parser.next != JaasToken::End {
        let (name, line) = (parser.text("the name of a section")?, parser.line);
        let is_wanted = name == section;
        let users = parser.section(is_wanted)?;
        if is_wanted {
            found = Some(users);
        }
        if !names.insert(name) {
            return Err(JaasError { line, reason: "a second section of the same name".to_owned() });
        }
    }
    Ok(found)
}

#[derive(Debug, PartialEq, Eq)]
enum JaasToken {
    Text(String),
    Symbol(char),
    /// A number, which a JVM takes for nothing else.
    Number,
    End,
}

struct Parser<'a> {
    tokens: Tokenizer<'a>,
    next: JaasToken,
    /// The line of the next token.
    line: usize,
}

impl Parser<'_> {
    /// A section after its name. Its users, if it is wanted.
    fn section(&mut self, is_wanted: bool) -> Result<SaslUsers, JaasError> {
        let mut users = SaslUsers::new();
        self.symbol('{')?;
        while self.next != JaasToken::Symbol('}') {
            self.module(is_wanted, &mut users)?;
        }
        self.symbol('}')?;
        self.symbol(';')?;
        Ok(users)
    }

    fn module(&mut self, is_wanted: bool, users: &mut SaslUsers) -> Result<(), JaasError> {
        let line = self.line;
        let class = self.text("the class of a module")?;
        if is_wanted {
            check_module(&class).map_err(|reason| JaasError { line, reason: reason.to_owned() })?;
        }
        let line = self.line;
        let flag = self.text("required, requisite, sufficient or optional")?;
        let flags = ["required", "requisite", "sufficient", "optional"];
        if !flags.iter().any(|known| known.eq_ignore_ascii_case(&flag)) {
            let reason = format!("expected one of {} after the class of a module", flags.join(", "));
            return Err(JaasError { line, reason });
        }
        while self.next != JaasToken::Symbol(';') {
            let option = self.text("an option, or a semicolon after the last one")?;
            self.symbol('=')?;
            let line = self.line;
            let value = self.text("a value, in quotes unless it has letters only")?;
            let Some(name) = option.strip_prefix("user_").filter(|_| is_wanted) else { continue };
            if value.split_once("${").is_some_and(|(_, rest)| rest.contains('}')) {
                let reason = "${...} in a password is a property of a JVM; write the password itself";
                return Err(JaasError { line, reason: reason.to_owned() });
            }
            users.set(name.to_owned(), &value);
        }
        self.symbol(';')
    }

    /// Takes a word or a quoted text.
    fn text(&mut self, expected: &str) -> Result<String, JaasError> {
        match &mut self.next {
            JaasToken::Text(text) => {
                let text = std::mem::take(text);
                self.advance()?;
                Ok(text)
            }
            JaasToken::Number => {
                Err(self.error(&format!("{expected}: what begins with a digit must be in quotes")))
            }
            JaasToken::Symbol(_) | JaasToken::End => Err(self.error(expected)),
        }
    }

    fn symbol(&mut self, symbol: char) -> Result<(), JaasError> {
        if self.next != JaasToken::Symbol(symbol) {
            return Err(self.error(&format!("'{symbol}'")));
        }
        self.advance()
    }

    fn advance(&mut self) -> Result<(), JaasError> {
        self.next = self.tokens.next()?;
        self.line = self.tokens.line;
        Ok(())
    }

    fn error(&self, expected: &str) -> JaasError {
        let at_end = if self.next == JaasToken::End { ", but the file ends" } else { "" };
        JaasError { line: self.line, reason: format!("expected {expected}{at_end}") }
    }
}

/// Whether a module has users of DIGEST-MD5.
fn check_module(class: &str) -> Result<(), &'static str> {
    match class.rsplit('.').next() {
        Some("DigestLoginModule") => Ok(()),
        Some("Krb5LoginModule") => Err(
            "Kerberos is not supported; use org.apache.zookeeper.server.auth.DigestLoginModule with user_<name>=\"<password>\"",
        ),
        _ => Err("not a known module; use org.apache.zookeeper.server.auth.DigestLoginModule"),
    }
}

struct Tokenizer<'a> {
    rest: &'a str,
    line: usize,
}

impl Tokenizer<'_> {
    fn next(&mut self) -> Result<JaasToken, JaasError> {
        loop {
            let Some(first) = self.rest.chars().next() else { return Ok(JaasToken::End) };
            match first {
                c if c <= ' ' => self.skip(1),
                '/' => self.comment(),
                '"' => return self.quoted(),
                c if is_word(c) && c != '-' => return Ok(JaasToken::Text(self.word())),
                c if is_word(c) || is_digit(c) => {
                    self.word();
                    return Ok(JaasToken::Number);
                }
                c => {
                    self.skip(c.len_utf8());
                    return Ok(JaasToken::Symbol(c));
                }
            }
        }
    }

    /// Skips that many bytes.
    fn skip(&mut self, bytes: usize) {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.line += skipped.matches('\n').count();
        self.rest = rest;
    }

    /// `/* ... */`, or from any other slash to the end of the line. The character after the slash belongs to the comment in any case,
    /// also if that is the end of its line.
    fn comment(&mut self) {
        let end = match self.rest.strip_prefix("/*") {
            Some(comment) => comment.find("*/").map(|at| at + 4),
            None => {
                let text = self.rest.chars().take(2).map(char::len_utf8).sum();
                self.rest[text..].find(['\n', '\r']).map(|at| text + at)
            }
        };
        self.skip(end.unwrap_or(self.rest.len()));
    }

    fn word(&mut self) -> String {
        let end = self.rest.find(|c| !is_word(c) && !is_digit(c)).unwrap_or(self.rest.len());
        let word = self.rest[..end].to_owned();
        self.skip(end);
        word
    }

    /// A text in quotes on one line, with the escapes of C.
    fn quoted(&mut self) -> Result<JaasToken, JaasError> {
        let mut text = String::new();
        let mut chars = self.rest[1..].chars();
        loop {
            let c = match chars.next() {
                None | Some('\n' | '\r') => {
                    return Err(JaasError { line: self.line, reason: "a quote is not closed".to_owned() });
                }
                Some('"') => break,
                Some('\\') => chars.next().map(|c| escaped(c, &mut chars)),
                c => c,
            };
            text.extend(c);
        }
        self.skip(self.rest.len() - chars.as_str().len());
        Ok(JaasToken::Text(text))
    }
}

/// The character that a backslash and `c` stand for; up to three octal digits are a number of at most 255.
fn escaped(c: char, chars: &mut std::str::Chars<'_>) -> char {
    let Some(mut code) = c.to_digit(8) else {
        return match c {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            c => c,
        };
    };
    let most = if c <= '3' { 2 } else { 1 };
    for _ in 0..most {
        let Some(digit) = chars.clone().next().and_then(|c| c.to_digit(8)) else { break };
        code = code * 8 + digit;
        chars.next();
    }
    char::from_u32(code).unwrap_or(c)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c >= '\u{a0}' || matches!(c, '$' | '_' | '-' | '*')
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

#[cfg(test)]
#[path = "jaas_tests.rs"]
mod tests;
