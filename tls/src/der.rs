//! The little of DER that stores need beyond what the libraries read: elements one after the other.

/// Tags of elements.
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
/// The explicit tags `[0]` and `[1]`.
pub(crate) const CONTEXT_0: u8 = 0xa0;
pub(crate) const CONTEXT_1: u8 = 0xa1;

/// Reads elements from the front of bytes.
pub(crate) struct DerReader<'a>(pub(crate) &'a [u8]);

impl<'a> DerReader<'a> {
    /// The value of the next element if it has this tag. Otherwise nothing is read.
    pub(crate) fn read(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&first, rest) = self.0.split_first()?;
        let (&length, rest) = rest.split_first()?;
        let (length, rest) = match length {
            0..=0x7f => (usize::from(length), rest),
            // Four bytes of length are more than any store has.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        if first != tag {
            return None;
        }
        self.0 = rest;
        Some(value)
    }

    /// The elements inside of the next one, a sequence.
    pub(crate) fn sequence(&mut self) -> Option<DerReader<'a>> {
        self.read(SEQUENCE).map(DerReader)
    }
}

/// An element with these parts as its value.
pub(crate) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    let length = value.len().to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut all = vec![tag];
    match value.len() {
        0..=0x7f => all.push(value.len() as u8),
        _ => {
            all.push(0x80 | length.len() as u8);
            all.extend_from_slice(length);
        }
    }
    all.extend_from_slice(&value);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_at_every_length() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000] {
            let value = vec![7; length];
            let written = element(OCTET_STRING, &[&value]);
            let mut reader = DerReader(&written);
            assert_eq!(reader.read(INTEGER), None);
            assert_eq!(reader.read(OCTET_STRING), Some(&*value));
            assert!(reader.0.is_empty());
        }
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_not_read() {
        let written = element(SEQUENCE, &[&[7; 300]]);
        for end in 0..written.len() {
            assert_eq!(DerReader(&written[..end]).read(SEQUENCE), None);
        }
        assert_eq!(DerReader(&[SEQUENCE, 0x85, 0, 0, 0, 0, 0]).read(SEQUENCE), None);
        assert_eq!(DerReader(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]).read(SEQUENCE), None);
    }
}
