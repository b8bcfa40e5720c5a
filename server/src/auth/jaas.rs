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
    let mut parser = Parser { rest: text, line: 1 };
    if text.len() > MAX_LEN {
        return Err(parser.error(format!("the file is longer than {MAX_LEN} bytes")));
    }
    let (mut found, mut names) = (None, HashSet::new());
    while !parser.is_at_end() {
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

struct Parser<'a> {
    rest: &'a str,
    /// The line on which the rest begins, and the last token has ended.
    line: usize,
}

impl Parser<'_> {
    /// A section after its name. Its users, if it is wanted.
    fn section(&mut self, is_wanted: bool) -> Result<SaslUsers, JaasError> {
        let mut users = SaslUsers::new();
        self.symbol('{')?;
        while !self.takes('}') {
            self.module(is_wanted, &mut users)?;
        }
        self.symbol(';')?;
        Ok(users)
    }

    fn module(&mut self, is_wanted: bool, users: &mut SaslUsers) -> Result<(), JaasError> {
        let class = self.text("the class of a module")?;
        if is_wanted {
            check_module(&class).map_err(|reason| self.error(reason))?;
        }
        let flag = self.text("required, requisite, sufficient or optional")?;
        let flags = ["required", "requisite", "sufficient", "optional"];
        if !flags.iter().any(|known| known.eq_ignore_ascii_case(&flag)) {
            let flags = flags.join(", ");
            return Err(self.error(format!("expected one of {flags} after the class of a module")));
        }
        while !self.takes(';') {
            let option = self.text("an option, or a semicolon after the last one")?;
            self.symbol('=')?;
            let value = self.text("a value, in quotes unless it has letters only")?;
            let Some(name) = option.strip_prefix("user_").filter(|_| is_wanted) else { continue };
            if value.split_once("${").is_some_and(|(_, rest)| rest.contains('}')) {
                let reason = "${...} in a password is a property of a JVM; write the password itself";
                return Err(self.error(reason));
            }
            users.set(name.to_owned(), &value);
        }
        Ok(())
    }

    /// Takes a word or a quoted text.
    fn text(&mut self, expected: &str) -> Result<String, JaasError> {
        self.skip_blank();
        match self.rest.chars().next() {
            Some('"') => self.quoted(),
            // A JVM takes it for a number, and for nothing else.
            Some(c) if is_digit(c) || c == '-' => {
                Err(self.expected(&format!("{expected}: what begins with a digit must be in quotes")))
            }
            Some(c) if is_word(c) => Ok(self.word()),
            _ => Err(self.expected(expected)),
        }
    }

    fn symbol(&mut self, symbol: char) -> Result<(), JaasError> {
        if self.takes(symbol) { Ok(()) } else { Err(self.expected(&format!("'{symbol}'"))) }
    }

    /// Takes a symbol, if it is next.
    fn takes(&mut self, symbol: char) -> bool {
        self.skip_blank();
        let is_next = self.rest.starts_with(symbol);
        if is_next {
            self.skip(symbol.len_utf8());
        }
        is_next
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_blank();
        self.rest.is_empty()
    }

    fn expected(&self, expected: &str) -> JaasError {
        let at_end = if self.rest.is_empty() { ", but the file ends" } else { "" };
        self.error(format!("expected {expected}{at_end}"))
    }

    fn error(&self, reason: impl Into<String>) -> JaasError {
        JaasError { line: self.line, reason: reason.into() }
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) {
        while let Some(first) = self.rest.chars().next().filter(|c| *c <= ' ' || *c == '/') {
            if first == '/' { self.comment() } else { self.skip(1) }
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
    fn quoted(&mut self) -> Result<String, JaasError> {
        let mut text = String::new();
        let mut chars = self.rest[1..].chars();
        loop {
            let c = match chars.next() {
                None | Some('\n' | '\r') => return Err(self.error("a quote is not closed")),
                Some('"') => break,
                Some('\\') => chars.next().map(|c| escaped(c, &mut chars)),
                c => c,
            };
            text.extend(c);
        }
        self.skip(self.rest.len() - chars.as_str().len());
        Ok(text)
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
