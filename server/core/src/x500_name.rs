//! X.500 names as Java parses them (`X500Principal`), in the form of RFC 1779 and 2253. Only whether they are valid: as an ACL id
//! a name is compared as text.

/// Whether Java takes `text` for the name of a subject.
pub(crate) fn is_x500_name(text: &str) -> bool {
    text.is_empty() || parts(text, &[',', ';']).all(|part| parts(part, &['+']).all(is_assertion))
}

/// The parts between separators that are neither escaped nor between quotes.
fn parts<'a>(text: &'a str, separators: &'a [char]) -> impl Iterator<Item = &'a str> {
    let (mut is_escaped, mut quotes) = (false, 0);
    text.split(move |c| {
        let is_plain = !is_escaped;
        is_escaped = is_plain && c == '\\';
        quotes += usize::from(c == '"' && is_plain);
        // Only the first quote of a part opens it; Java does not care about a third one here.
        let separates = is_plain && quotes != 1 && separators.contains(&c);
        if separates {
            quotes = 0;
        }
        separates
    })
}

/// Whether it is `type=value`.
fn is_assertion(text: &str) -> bool {
    let Some((kind, value)) = text.split_once('=') else { return false };
    let value = value.trim_start_matches([' ', '\n']);
    is_type(kind.trim_matches(|c| c <= ' '))
        && match value.chars().next() {
            None => true,
            Some('#') => is_hex_value(&value[1..]),
            Some('"') => is_quoted(&value[1..]),
            Some(_) => is_string(value),
        }
}

/// Whether it is an attribute type: one that has a keyword, or the number of one.
fn is_type(kind: &str) -> bool {
    match &*kind.to_ascii_uppercase() {
        "CN" | "C" | "L" | "S" | "ST" | "O" | "OU" | "T" | "IP" | "STREET" | "DC" | "DNQUALIFIER" | "DNQ"
        | "SURNAME" | "GIVENNAME" | "INITIALS" | "GENERATION" | "EMAILADDRESS" | "UID" | "SERIALNUMBER" => {
            true
        }
        number => is_oid(number.strip_prefix("OID.").unwrap_or(number)),
    }
}

/// At least two numbers, of which the first two are limited.
fn is_oid(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut numbers = text.split('.');
    let (Some(first), Some(second)) = (numbers.next(), numbers.next()) else { return false };
    let limited = match first.parse::<u64>() {
        Ok(0 | 1) => second.parse::<u64>().is_ok_and(|second| second < 40),
        Ok(2) => true,
        _ => false,
    };
    limited && text.split('.').all(is_number)
}

/// Whether these are the hexadecimal digits of one value in BER, with a tag of one byte.
fn is_hex_value(text: &str) -> bool {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let Some(digits) = digits.filter(|digits| digits.len() % 2 == 0) else { return false };
    let bytes: Vec<u32> = digits.chunks_exact(2).map(|pair| (pair[0] << 4) | pair[1]).collect();
    match bytes[..] {
        [tag, ..] if tag & 0x1f == 0x1f => false,
        [_, len @ 0..=0x7f, ref content @ ..] => content.len() == len as usize,
        [_, len, ref content @ ..] if (0x81..=0x84).contains(&len) => {
            let Some((len, content)) = content.split_at_checked(len as usize - 0x80) else { return false };
            let announced = len.iter().fold(0, |sum: u64, byte| (sum << 8) | u64::from(*byte));
            announced == content.len() as u64
        }
        _ => false,
    }
}

/// Whether a quoted value is closed, and nothing but blanks comes after that.
fn is_quoted(text: &str) -> bool {
    let mut chars = text.chars();
    loop {
        match chars.next() {
            None => return false,
            Some('"') => return chars.all(|c| matches!(c, ' ' | '\n')),
            Some('\\') if !is_escape(&mut chars, ",=\n+<>#;\\\"") => return false,
            Some(_) => {}
        }
    }
}

fn is_string(text: &str) -> bool {
    let mut chars = text.chars();
    loop {
        match chars.next() {
            None => return true,
            Some('\\') if !is_escape(&mut chars, ",=\n+<>#;\\\" ") => return false,
            Some(',' | '+' | '<' | '>' | ';' | '"') => return false,
            Some(_) => {}
        }
    }
}

/// Whether a backslash is followed by one of these characters, or by a byte in two hexadecimal digits.
fn is_escape(chars: &mut std::str::Chars<'_>, special: &str) -> bool {
    match chars.next() {
        Some(c) if c.is_ascii_hexdigit() => chars.next().is_some_and(|c| c.is_ascii_hexdigit()),
        Some(c) => special.contains(c),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each as OpenJDK 17 answers. Random names differ only after a backslash that is escaped and followed by a separator, where Java
    /// takes more (`X500Name.escaped`).
    #[test]
    fn what_java_takes_for_a_name_is_one() {
        for (text, valid) in [
            ("", true),
            ("CN=q", true),
            ("cn=q, o=z", true),
            ("CN=a,CN=", true),
            ("CN=a+OU=b;O=c", true),
            ("OID.1.2.3=x,2.999=y,1.39=z", true),
            ("1.2.3=#0401ff", true),
            ("1.2.3=#048101ff", true),
            (
                "UID=b1,CN=Böb,OU=a  b,OU=\\#hash,OU=\\ lead\\ ,O=Ac\\+me \\\"q\\\" \\<x\\>\\;\\=\\#\\\\z,DC=acme",
                true,
            ),
            ("CN=\"a,b+c;d\" ,O=\\41\\2c", true),
            ("CN=a\\\\,O=b", true),
            ("STREET=a,L=b,ST=c,C=d,EMAILADDRESS=e,SERIALNUMBER=f", true),
            (" ", false),
            ("garbage", false),
            ("E=x", false),
            ("CN=a,", false),
            (",CN=a", false),
            ("CN=a,,O=b", false),
            ("CN=a+", false),
            ("=a", false),
            ("CN=a<b", false),
            ("CN=a\"b", false),
            ("CN=\"a\"b", false),
            ("CN=\"a", false),
            ("CN=a\\", false),
            ("CN=a\\4", false),
            ("CN=a\\4g", false),
            ("CN=a\\n", false),
            ("CN=#", false),
            ("CN=#0", false),
            ("CN=#0401", false),
            ("CN=#0401ffff", false),
            ("CN=#0401fg", false),
            ("CN=#0401ff ", false),
            ("CN=#0480", false),
            ("CN=#1f0101", false),
            ("1=a", false),
            ("1.40=a", false),
            ("3.1=a", false),
            ("1..2=a", false),
            ("1.=a", false),
        ] {
            assert_eq!(is_x500_name(text), valid, "{text:?}");
        }
    }
}
