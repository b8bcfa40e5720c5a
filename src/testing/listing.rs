//! Parses trees from text, in the format in which a server's tree is printed.

use bytes::Bytes;

/// A znode of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedZnode {
    pub(super) path: String,
    pub(super) data: Bytes,
}

/// A line that is not a znode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {hint}: {text}")]
pub struct ListingError {
    /// The number of the line, from 1.
    pub line: usize,
    /// The content of the line.
    pub text: String,
    /// What the line must be.
    pub hint: &'static str,
}

pub(super) fn parse(text: &str) -> Result<Vec<ListedZnode>, ListingError> {
    let lines = text.lines().map(str::trim).enumerate();
    let znodes = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    znodes
        .map(|(at, line)| {
            parse_line(line).map_err(|hint| ListingError { line: at + 1, text: line.to_owned(), hint })
        })
        .collect()
}

fn parse_line(line: &str) -> Result<ListedZnode, &'static str> {
    let (path, rest) = parse_path(line)?;
    let (data, notes) = parse_data(rest.trim_start())?;
    for note in notes.split_whitespace() {
        if !note.starts_with("version=") {
            if !["container", "ttl=", "ephemeral="].iter().any(|known| note.starts_with(known)) {
                return Err(
                    "data must be in double quotes or written as x'00ff', and a path with blanks in double quotes",
                );
            }
            return Err("an initial tree has persistent znodes only; create others with a client");
        }
    }
    Ok(ListedZnode { path, data })
}

/// The leading path, in quotes or up to a blank, and the rest.
fn parse_path(line: &str) -> Result<(String, &str), &'static str> {
    let (path, rest) = match line.strip_prefix('"') {
        Some(quoted) => parse_text(quoted)?,
        None => {
            let (path, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            (path.to_owned(), rest)
        }
    };
    if path.starts_with('/') { Ok((path, rest)) } else { Err("a line must begin with the path of a znode") }
}

/// The leading data, and the rest.
fn parse_data(text: &str) -> Result<(Bytes, &str), &'static str> {
    if let Some(hex) = text.strip_prefix("x'") {
        let (digits, rest) = hex.split_once('\'').ok_or(OPEN)?;
        return Ok((bytes_of(digits).ok_or("x'..' must hold pairs of hexadecimal digits")?, rest));
    }
    let Some(quoted) = text.strip_prefix('"') else {
        return Ok((Bytes::new(), text.strip_prefix("null").unwrap_or(text)));
    };
    let (text, rest) = parse_text(quoted)?;
    Ok((text.into(), rest))
}

const OPEN: &str = "the closing quote is missing";

/// The text up to the closing quote, and the rest.
fn parse_text(quoted: &str) -> Result<(String, &str), &'static str> {
    let mut text = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next().ok_or(OPEN)? {
            '"' => return Ok((text, chars.as_str())),
            '\\' => text.push(
                escaped(&mut chars)
                    .ok_or("an escape must be one of \\\\ \\\" \\' \\n \\r \\t \\0 \\u{..}")?,
            ),
            other => text.push(other),
        }
    }
}

fn escaped(chars: &mut std::str::Chars<'_>) -> Option<char> {
    match chars.next()? {
        same @ ('\\' | '"' | '\'') => Some(same),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        '0' => Some('\0'),
        'u' => {
            let (digits, rest) = chars.as_str().strip_prefix('{')?.split_once('}')?;
            *chars = rest.chars();
            char::from_u32(u32::from_str_radix(digits, 16).ok()?)
        }
        _ => None,
    }
}

fn bytes_of(digits: &str) -> Option<Bytes> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_path_and_its_data_as_text_or_hexadecimal() {
        let text = "\n# a comment\n/a\n  /b/c \"x \\\"y\\\" \\u{7f}\\n\" version=2\n/d x'00ff'\n/e null\n";
        let expected: [(&str, &[u8]); 4] =
            [("/a", b""), ("/b/c", b"x \"y\" \x7f\n"), ("/d", b"\0\xff"), ("/e", b"")];
        let expected = expected
            .map(|(path, data)| ListedZnode { path: path.to_owned(), data: Bytes::from_static(data) });
        assert_eq!(parse(text), Ok(expected.to_vec()));
    }

    #[test]
    fn a_path_with_blanks_is_quoted() {
        let text = "\"/a b\" \"x\"\n\"/\u{a0} \\\"q\\\"\" x'00'\n\"/plain\"";
        let expected = [("/a b", "x"), ("/\u{a0} \"q\"", "\0"), ("/plain", "")];
        let expected = expected.map(|(path, data)| ListedZnode { path: path.to_owned(), data: data.into() });
        assert_eq!(parse(text), Ok(expected.to_vec()));
        assert!(parse("\"a b\"").is_err() && parse("\"/a b").is_err());
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        for wrong in [
            "a",
            "/a \"x",
            "/a x'0",
            "/a x'0g'",
            "/a x'+f'",
            "/a \"\\q\"",
            "/a \"\" ephemeral=0x1",
            "/a container",
        ] {
            let error = parse(&format!("/ok\n{wrong}")).expect_err(wrong);
            assert_eq!((error.line, error.text.as_str()), (2, wrong));
        }
    }
}
