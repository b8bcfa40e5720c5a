//! How a counter is written, by us and by others.

use bytes::Bytes;

/// The data of a counter's znode. Empty data is 0 in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CounterLayout {
    /// Eight bytes, big endian, signed: `DistributedAtomicLong` of Curator.
    CuratorI64,
    /// Four bytes, big endian, signed: `DistributedAtomicInteger` and `SharedCount` of Curator, and `Counter` of kazoo with
    /// `support_curator`.
    CuratorI32,
    /// A decimal number in ASCII: `Counter` of kazoo with whole numbers.
    KazooText,
}

impl CounterLayout {
    /// The number, or what is wrong with the data.
    pub(super) fn decode(self, data: &[u8]) -> Result<i64, &'static str> {
        if data.is_empty() {
            return Ok(0);
        }
        match self {
            Self::CuratorI64 => data.try_into().map(i64::from_be_bytes).map_err(|_| "8 bytes are expected"),
            Self::CuratorI32 => {
                let bytes = data.try_into().map_err(|_| "4 bytes are expected")?;
                Ok(i32::from_be_bytes(bytes).into())
            }
            Self::KazooText => {
                let text =
                    std::str::from_utf8(data).map_err(|_| "a decimal number is expected")?.trim_ascii();
                text.parse().map_err(|_| match text.parse::<f64>() {
                    Ok(_) if is_whole(text) => "a number of at most 64 bits is expected",
                    Ok(_) => "it is a float, and a whole number is expected",
                    Err(_) => "a decimal number is expected",
                })
            }
        }
    }

    /// The data for a number; `None` if it does not fit.
    pub(super) fn encode(self, value: i128) -> Option<Bytes> {
        Some(match self {
            Self::CuratorI64 => Bytes::copy_from_slice(&i64::try_from(value).ok()?.to_be_bytes()),
            Self::CuratorI32 => Bytes::copy_from_slice(&i32::try_from(value).ok()?.to_be_bytes()),
            Self::KazooText => i64::try_from(value).ok()?.to_string().into(),
        })
    }

    /// The bits of the numbers that fit.
    pub(super) fn bits(self) -> u32 {
        match self {
            Self::CuratorI64 | Self::KazooText => i64::BITS,
            Self::CuratorI32 => i32::BITS,
        }
    }
}

fn is_whole(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_bytes_of_curator_and_kazoo() {
        use CounterLayout::*;
        for (layout, value, data) in [
            (CuratorI64, 258, &[0, 0, 0, 0, 0, 0, 1, 2][..]),
            (CuratorI64, -1, &[255; 8]),
            (CuratorI32, 258, &[0, 0, 1, 2]),
            (CuratorI32, i32::MIN.into(), &[128, 0, 0, 0]),
            (KazooText, -2, b"-2"),
        ] {
            assert_eq!(layout.encode(value.into()).unwrap(), data);
            assert_eq!(layout.decode(data), Ok(value));
        }
        for layout in [CuratorI64, CuratorI32, KazooText] {
            assert_eq!(layout.decode(b""), Ok(0), "{layout:?}");
            let most = (1 << (layout.bits() - 1)) - 1;
            assert_eq!(layout.decode(&layout.encode(most).unwrap()), Ok(most as i64));
            assert_eq!((layout.encode(most + 1), layout.encode(-most - 2)), (None, None));
        }
    }

    #[test]
    fn what_is_no_whole_number_is_an_error_that_says_why() {
        use CounterLayout::*;
        for (layout, data, why) in [
            (CuratorI64, &[0; 4][..], "8 bytes are expected"),
            (CuratorI32, &[0; 8], "4 bytes are expected"),
            (KazooText, b"3.5", "it is a float, and a whole number is expected"),
            (KazooText, b"1e3", "it is a float, and a whole number is expected"),
            (KazooText, b"9223372036854775808", "a number of at most 64 bits is expected"),
            (KazooText, b"ten", "a decimal number is expected"),
            (KazooText, &[0, 0, 0, 1], "a decimal number is expected"),
        ] {
            assert_eq!(layout.decode(data), Err(why), "{data:?}");
        }
    }
}
