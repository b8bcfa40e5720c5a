//! The subject of a certificate as text.

use std::fmt::Write;

use x509_parser::parse_x509_certificate;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::der::element;

/// Tags of text that is written as such. A value of another type is written in hex (`AVA.isDerString`).
const TEXT: [u32; 6] = [0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1e];

/// The subject of a certificate in DER as Java writes it (`X500Principal.getName`), which is the id of the scheme `x509`: RFC 2253
/// with the rarer attributes as hex. `None` if the certificate cannot be read. An empty subject is an empty text.
pub fn subject(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    Some(text_of(certificate.subject()))
}

fn text_of(name: &X509Name<'_>) -> String {
    let mut sets: Vec<String> =
        name.iter_rdn().map(|set| set.iter().map(attribute).collect::<Vec<_>>().join("+")).collect();
    sets.reverse();
    sets.join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let oid = attribute.attr_type().to_id_string();
    let keyword = match oid.as_str() {
        "2.5.4.3" => Some("CN"),
        "2.5.4.6" => Some("C"),
        "2.5.4.7" => Some("L"),
        "2.5.4.8" => Some("ST"),
        "2.5.4.9" => Some("STREET"),
        "2.5.4.10" => Some("O"),
        "2.5.4.11" => Some("OU"),
        "0.9.2342.19200300.100.1.25" => Some("DC"),
        "0.9.2342.19200300.100.1.1" => Some("UID"),
        _ => None,
    };
    let value = attribute.attr_value();
    match keyword.filter(|_| TEXT.contains(&value.tag().0)) {
        // Whatever the type of the text is, Java reads it as UTF-8.
        Some(keyword) => format!("{keyword}={}", escaped(&String::from_utf8_lossy(value.data))),
        None => {
            let mut text = format!("{}=#", keyword.unwrap_or(&oid));
            let constructed = if value.header.is_constructed() { 0x20 } else { 0 };
            let tag = u8::try_from(value.tag().0).unwrap_or_default() | constructed;
            for byte in element(tag, &[value.data]) {
                // Writing to a string does not fail.
                let _ = write!(text, "{byte:02x}");
            }
            text
        }
    }
}

/// With a backslash before what has a meaning in a name, and before blanks at either end.
fn escaped(value: &str) -> String {
    let is_blank = |c: char| c == ' ' || c == '\r';
    let begin = value.len() - value.trim_start_matches(is_blank).len();
    let end = value.trim_end_matches(is_blank).len();
    let mut text = String::with_capacity(value.len());
    for (at, c) in value.char_indices() {
        match c {
            '\0' => text.push_str("\\00"),
            _ if ",=+<>#;\"\\".contains(c) || at < begin || at >= end => text.extend(['\\', c]),
            _ => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::FromDer;

    use super::*;

    const UTF8: u8 = 0x0c;
    const PRINTABLE: u8 = 0x13;
    const IA5: u8 = 0x16;

    /// The last arcs of 2.5.4.
    const CN: &[u8] = &[0x55, 4, 3];
    const C: &[u8] = &[0x55, 4, 6];
    const L: &[u8] = &[0x55, 4, 7];
    const ST: &[u8] = &[0x55, 4, 8];
    const O: &[u8] = &[0x55, 4, 10];
    const OU: &[u8] = &[0x55, 4, 11];
    const DC: &[u8] = &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25];
    const UID: &[u8] = &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1];
    const EMAIL: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1];

    type Attribute<'a> = (&'a [u8], u8, &'a [u8]);

    /// The text of a name with these sets of attributes, in the order of DER.
    fn text(sets: &[&[Attribute<'_>]]) -> String {
        let attribute = |(oid, tag, value): &Attribute<'_>| {
            element(0x30, &[&element(0x06, &[oid]), &element(*tag, &[value])])
        };
        let set = |set: &&[Attribute<'_>]| {
            element(0x31, &[&set.iter().map(attribute).collect::<Vec<_>>().concat()])
        };
        let name = element(0x30, &[&sets.iter().map(set).collect::<Vec<_>>().concat()]);
        text_of(&X509Name::from_der(&name).expect("a name").1)
    }

    /// The text of a name of single attributes.
    fn singles(attributes: &[Attribute<'_>]) -> String {
        let sets: Vec<_> = attributes.iter().map(std::slice::from_ref).collect();
        text(&sets)
    }

    #[test]
    fn a_subject_is_written_as_apache_writes_it() {
        assert_eq!(
            singles(&[
                (C, PRINTABLE, b"US"),
                (ST, UTF8, b"CA"),
                (L, UTF8, b"SF"),
                (O, UTF8, b"Acme, Inc"),
                (OU, UTF8, b"Eng"),
                (CN, UTF8, b"alice"),
                (EMAIL, IA5, b"alice@acme.example"),
            ]),
            "1.2.840.113549.1.9.1=#1612616c6963654061636d652e6578616d706c65,CN=alice,OU=Eng,O=Acme\\, Inc,L=SF,ST=CA,C=US"
        );
        assert_eq!(
            singles(&[
                (DC, IA5, b"example"),
                (DC, IA5, b"acme"),
                (O, UTF8, b"Ac+me \"q\" <x>;=#\\z"),
                (OU, UTF8, b" lead trail "),
                (OU, UTF8, b"#hash"),
                (OU, UTF8, b"a  b"),
                (CN, UTF8, "Böb".as_bytes()),
                (UID, UTF8, b"b1"),
            ]),
            "UID=b1,CN=Böb,OU=a  b,OU=\\#hash,OU=\\ lead trail\\ ,O=Ac\\+me \\\"q\\\" \\<x\\>\\;\\=\\#\\\\z,DC=acme,DC=example"
        );
        let of_2_5_4 = |last| [0x55, 4, last];
        assert_eq!(
            singles(&[
                (CN, UTF8, b"o"),
                (&of_2_5_4(5), PRINTABLE, b"77"),
                (&of_2_5_4(4), UTF8, b"Sur"),
                (&of_2_5_4(42), UTF8, b"Giv"),
                (&of_2_5_4(12), UTF8, b"t"),
                (&of_2_5_4(9), UTF8, b"1 Main"),
                (EMAIL, IA5, b"a@b.c"),
                (&of_2_5_4(46), PRINTABLE, b"dq"),
                (&of_2_5_4(65), UTF8, b"ps"),
                (&of_2_5_4(44), UTF8, b"III"),
                (&of_2_5_4(17), UTF8, b"99"),
            ]),
            "2.5.4.17=#0c023939,2.5.4.44=#0c03494949,2.5.4.65=#0c027073,2.5.4.46=#13026471,1.2.840.113549.1.9.1=#16056140622e63,\
             STREET=1 Main,2.5.4.12=#0c0174,2.5.4.42=#0c03476976,2.5.4.4=#0c03537572,2.5.4.5=#13023737,CN=o"
        );
        assert_eq!(text(&[&[(O, UTF8, b"Acme")], &[(CN, UTF8, b"a"), (OU, UTF8, b"b")]]), "CN=a+OU=b,O=Acme");
        assert_eq!(text(&[]), "");
    }

    /// From `X500Principal.getName` of Java 17.
    #[test]
    fn a_value_is_text_or_hex_as_in_java() {
        let cases: [(u8, &[u8], &str); 13] = [
            (0x1e, b"\0b\0b", "CN=\\00b\\00b"),
            (0x14, b"\xe4", "CN=\u{fffd}"),
            (0x1c, b"\0\0\0b", "CN=#1c0400000062"),
            (0x12, b"12", "CN=#12023132"),
            (0x1b, b"b", "CN=b"),
            (0x0c, b"\rb\r", "CN=\\\rb\\\r"),
            (0x0c, b"  ", "CN=\\ \\ "),
            (0x0c, b"", "CN="),
            (0x04, b"b", "CN=#040162"),
            (0x0c, b"\n\tb", "CN=\n\tb"),
            (0x1a, b"b", "CN=#1a0162"),
            (0x30, b"\x02\x01\x05\x01\x01\xff", "CN=#30060201050101ff"),
            (0x02, b"\x05", "CN=#020105"),
        ];
        for (tag, value, expected) in cases {
            assert_eq!(singles(&[(CN, tag, value)]), expected);
        }
    }
}
