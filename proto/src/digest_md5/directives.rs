//! The syntax of tokens: `name=value` and `name="value"`, with commas or blanks between. As the JDK reads it, which takes more
//! than the RFC allows (`DigestMD5Base.parseDirectives`).

use std::collections::BTreeMap;

use super::DigestMd5Error;

/// The directives of interest in a token: their names and values.
#[derive(Default)]
pub(super) struct Directives(BTreeMap<&'static str, Vec<u8>>);

/// The first directive, by name and value, and what comes after it and its separator.
type Directive<'a> = (&'a [u8], Vec<u8>, &'a [u8]);

impl Directives {
    /// Reads the directives with these names, in any case; others are skipped.
    ///
    /// # Errors
    /// `Malformed` for another syntax, or a directive of interest that comes twice.
    pub(super) fn parse(token: &[u8], names: &[&'static str]) -> Result<Self, DigestMd5Error> {
        let mut found = BTreeMap::new();
        let mut rest = skip_blanks(token);
        while let Some((&first, after)) = rest.split_first() {
            if first == b',' {
                rest = skip_blanks(after);
                continue;
            }
            let (name, value, after) = directive(rest)?;
            rest = after;
            let name = names.iter().find(|wanted| wanted.as_bytes().eq_ignore_ascii_case(name));
            if name.is_some_and(|name| found.insert(*name, value).is_some()) {
                return Err(DigestMd5Error::Malformed("a directive comes twice"));
            }
        }
        Ok(Self(found))
    }

    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    pub(super) fn required(&self, name: &'static str) -> Result<&[u8], DigestMd5Error> {
        self.get(name).ok_or(DigestMd5Error::Missing(name))
    }
}

/// A value between quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn directive(token: &[u8]) -> Result<Directive<'_>, DigestMd5Error> {
    let end = token.iter().position(|byte| matches!(byte, b'=' | b',') || is_blank(*byte));
    let Some(end) = end else {
        // A last name without a value: the JDK takes it for an empty one.
        return Ok((token, Vec::new(), &[]));
    };
    let (name, after) = token.split_at(end);
    let Some(value) = skip_blanks(after).strip_prefix(b"=").filter(|_| !name.is_empty()) else {
        return Err(DigestMd5Error::Malformed("a directive without a value"));
    };
    let value = skip_blanks(value);
    let (value, after) = match value.split_first() {
        None => return Err(DigestMd5Error::Malformed("a directive without a value")),
        Some((b'"', text)) => in_quotes(text)?,
        Some(_) => {
            let end = value.iter().position(|byte| *byte == b',' || is_blank(*byte));
            let (value, after) = value.split_at(end.unwrap_or(value.len()));
            (value.to_vec(), after)
        }
    };
    match after.split_first() {
        None => Ok((name, value, &[])),
        Some((separator, after)) if *separator == b',' || is_blank(*separator) => {
            Ok((name, value, skip_blanks(after)))
        }
        Some(_) => Err(DigestMd5Error::Malformed("no comma after a quoted value")),
    }
}

/// The text up to the closing quote, and what comes after that.
fn in_quotes(text: &[u8]) -> Result<(Vec<u8>, &[u8]), DigestMd5Error> {
    let mut value = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Ok((value, &text[at + 1..])),
            b'\\' => value.extend(bytes.next().map(|(_, byte)| *byte)),
            _ => value.push(*byte),
        }
    }
    Err(DigestMd5Error::Malformed("a quote is not closed"))
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|byte| is_blank(**byte)).count();
    &bytes[blanks..]
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}
