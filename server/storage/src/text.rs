//! Strings on disk: UTF-8, and what Java makes of characters above U+FFFF.

/// Decodes a string. ZooKeeper writes a character above U+FFFF as two surrogates of three bytes each (CESU-8), which are read
/// here as the character that was meant. Apache itself reads replacement characters, after a restart.
pub(crate) fn decode(bytes: &[u8]) -> Option<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text.to_owned()),
        Err(_) => decode_surrogates(bytes),
    }
}

fn decode_surrogates(mut bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    while !bytes.is_empty() {
        let valid = match std::str::from_utf8(bytes) {
            Ok(_) => bytes.len(),
            Err(error) => error.valid_up_to(),
        };
        text.push_str(std::str::from_utf8(&bytes[..valid]).ok()?);
        bytes = &bytes[valid..];
        if let Some((pair, rest)) = bytes.split_first_chunk::<6>() {
            text.push(surrogates(pair)?);
            bytes = rest;
        } else if !bytes.is_empty() {
            return None;
        }
    }
    Some(text)
}

/// The character of a high and a low surrogate.
fn surrogates(pair: &[u8; 6]) -> Option<char> {
    let [0xed, high @ 0xa0..=0xaf, high_low @ 0x80..=0xbf, 0xed, low @ 0xb0..=0xbf, low_low @ 0x80..=0xbf] =
        *pair
    else {
        return None;
    };
    let ten = |upper: u8, lower: u8| u32::from(upper & 0x0f) << 6 | u32::from(lower & 0x3f);
    char::from_u32(0x1_0000 + (ten(high, high_low) << 10) + ten(low, low_low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_surrogates_are_one_character() {
        for c in ['\u{1_0000}', '😀', '\u{10_ffff}'] {
            let mut units = [0; 2];
            let mut bytes = b"user-".to_vec();
            for unit in c.encode_utf16(&mut units) {
                let unit = *unit;
                bytes.extend([
                    0xe0 | (unit >> 12) as u8,
                    0x80 | (unit >> 6 & 0x3f) as u8,
                    0x80 | (unit & 0x3f) as u8,
                ]);
            }
            bytes.extend("ä".bytes());
            assert_eq!(decode(&bytes), Some(format!("user-{c}ä")));
            assert_eq!(decode(&bytes[..bytes.len() - 5]), None, "a high surrogate alone");
        }
        assert_eq!(decode("😀".as_bytes()), Some("😀".to_owned()));
        assert_eq!(decode(&[0xff]), None);
        assert_eq!(decode(b"a\xffbcdefg"), None);
    }
}
