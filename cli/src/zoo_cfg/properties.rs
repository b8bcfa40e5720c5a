//! Java properties files, parsed as `java.util.Properties.load` does.

use std::path::Path;
use std::sync::Arc;

use super::ConfigError;

/// One key with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) file: Arc<Path>,
    /// The first line of the entry, counted from 1.
    pub(crate) line: usize,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// Parses the entries of a file, in its order. Bytes are characters of Latin-1, as in Java.
///
/// # Errors
/// If a `\u` lacks its four hexadecimal digits: the only syntax error of a properties file.
pub(crate) fn parse(file: &Path, bytes: &[u8]) -> Result<Vec<Entry>, ConfigError> {
    // Some editors write a byte order mark, which would become part of the first key.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let file = file.into();
    logical_lines(bytes).into_iter().map(|(line, text)| entry(&file, line, &text)).collect()
}

/// The lines without comments and blank lines, with continued lines joined, each with the number of its first line.
fn logical_lines(bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut lines = Vec::new();
    let mut joined: Option<(usize, Vec<u8>)> = None;
    for (number, natural) in natural_lines(bytes).enumerate() {
        let text = trim_blanks(natural);
        // Only the start of a logical line can be blank or a comment.
        let continues = joined.as_ref().is_some_and(|(_, before)| !before.is_empty());
        if !continues && (matches!(text.first(), Some(b'#' | b'!')) || (text.is_empty() && joined.is_none()))
        {
            joined = None;
            continue;
        }
        let (start, mut line) = joined.take().unwrap_or((number + 1, Vec::new()));
        let backslashes = text.iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 1 {
            line.extend_from_slice(&text[..text.len() - 1]);
            joined = Some((start, line));
        } else {
            line.extend_from_slice(text);
            lines.push((start, line));
        }
    }
    lines.extend(joined);
    lines.retain(|(_, line)| !line.is_empty());
    lines
}

fn natural_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            rest = None;
            return Some(text);
        };
        let width = if text[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = Some(&text[end + width..]);
        Some(&text[..end])
    })
}

fn trim_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| blank(**byte)).count();
    &text[blanks..]
}

fn blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c')
}

/// Splits a line at the first `=`, `:` or blank that is not escaped. An `=` or `:` may have blanks around it.
fn entry(file: &Arc<Path>, line: usize, text: &[u8]) -> Result<Entry, ConfigError> {
    let mut escaped = false;
    let separates = |byte: &u8| {
        let separates = !escaped && (matches!(byte, b'=' | b':') || blank(*byte));
        escaped = *byte == b'\\' && !escaped;
        separates
    };
    let end = text.iter().position(separates).unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    let rest = trim_blanks(rest);
    let value = match rest.first() {
        Some(b'=' | b':') => trim_blanks(&rest[1..]),
        _ => rest,
    };
    let unescaped = |text| unescape(text).ok_or_else(|| ConfigError::escape(file, line));
    Ok(Entry { file: Arc::clone(file), line, key: unescaped(key)?, value: unescaped(value)? })
}

/// Resolves escapes; `None` if a `\u` lacks its four hexadecimal digits.
fn unescape(text: &[u8]) -> Option<String> {
    let mut units = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            units.push(u16::from(*byte));
            continue;
        }
        let Some((escape, after)) = rest.split_first() else { break };
        rest = after;
        units.push(match escape {
            b't' => u16::from(b'\t'),
            b'r' => u16::from(b'\r'),
            b'n' => u16::from(b'\n'),
            b'f' => 0x0c,
            b'u' => {
                let (digits, after) = rest.split_at_checked(4)?;
                rest = after;
                digits.iter().try_fold(0, |unit, digit| {
                    let digit = char::from(*digit).to_digit(16)?;
                    u16::try_from(digit).ok().map(|digit| unit << 4 | digit)
                })?
            }
            other => u16::from(*other),
        });
    }
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(bytes: &[u8]) -> Result<Vec<Entry>, ConfigError> {
        parse(Path::new("zoo.cfg"), bytes)
    }

    fn read(text: &str) -> Vec<(usize, String, String)> {
        let entries = parsed(text.as_bytes()).unwrap();
        entries.into_iter().map(|entry| (entry.line, entry.key, entry.value)).collect()
    }

    fn pairs(text: &str) -> Vec<(String, String)> {
        read(text).into_iter().map(|(_, key, value)| (key, value)).collect()
    }

    fn pair(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.to_owned(), value.to_owned())]
    }

    #[test]
    fn a_key_ends_at_an_equals_sign_a_colon_or_a_blank() {
        for text in ["a=b", "a:b", "a b", "a = b", "a\t:\x0cb", " \ta b", "a   b"] {
            assert_eq!(pairs(text), pair("a", "b"), "{text:?}");
        }
        assert_eq!(pairs("a = = b"), pair("a", "= b"));
        assert_eq!(pairs("a b=c"), pair("a", "b=c"));
        assert_eq!(pairs("a"), pair("a", ""));
        assert_eq!(pairs("a="), pair("a", ""));
        assert_eq!(pairs("=b"), pair("", "b"));
        assert_eq!(pairs(r"a\=\:\ b=c"), pair("a=: b", "c"));
        assert_eq!(pairs("a=b "), pair("a", "b "));
    }

    #[test]
    fn comments_and_blank_lines_are_skipped_and_lines_are_counted() {
        let text = "# one\n! two\n\n  \t\n  # three \\\na=1\r\n\r\nb=2\rc=3 # stays";
        let expected = [(6, "a", "1"), (8, "b", "2"), (9, "c", "3 # stays")];
        assert_eq!(read(text), expected.map(|(line, key, value)| (line, key.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_backslash_at_the_end_continues_the_line() {
        assert_eq!(read("a=1,\\\n   2,\\\r\n\t3\nb=4")[0], (1, "a".to_owned(), "1,2,3".to_owned()));
        assert_eq!(read("a=1,\\\n   2,\\\r\n\t3\nb=4")[1].0, 4);
        assert_eq!(pairs("a=1\\\\\nb=2").len(), 2);
        assert_eq!(pairs("a=1\\\\\\\n2"), pair("a", "1\\2"));
        assert_eq!(pairs("a=1\\\n# no comment"), pair("a", "1# no comment"));
        assert_eq!(pairs("a=1\\\n\nb=2").len(), 2);
        assert_eq!(pairs("\\\n# a comment\na=1"), pair("a", "1"));
        assert_eq!(pairs("a=1\\"), pair("a", "1"));
    }

    #[test]
    fn escapes_stand_for_characters() {
        assert_eq!(pairs(r"a=\t\n\r\f\q\\"), pair("a", "\t\n\r\x0cq\\"));
        assert_eq!(pairs(r"\u0061=\u00e9\uD83D\uDE00"), pair("a", "é😀"));
        assert_eq!(parsed(b"x=1\ndir=C:\\users").unwrap_err().line, 2);
        assert_eq!(parsed(b"x=\\u12").unwrap_err().line, 1);
        assert_eq!(parsed(b"x=\\u+123").unwrap_err().line, 1);
    }

    #[test]
    fn bytes_are_latin_1_and_a_byte_order_mark_is_skipped() {
        assert_eq!(parsed(b"a=\xe9").unwrap()[0].value, "é");
        assert_eq!(parsed(b"\xef\xbb\xbfa=1").unwrap()[0].key, "a");
    }
}
