//! Copies of values, short ones with their reference count in one allocation.
//!
//! `Bytes` allocates the count of a copied value at its first clone. Most values of ZooKeeper are short, and all are cloned: by
//! a transaction, and by each reply.

use bytes::Bytes;

/// A value of at most `N` bytes.
struct Short<const N: usize> {
    len: u8,
    bytes: [u8; N],
}

impl<const N: usize> Short<N> {
    fn copied(value: &[u8]) -> Bytes {
        let mut bytes = [0; N];
        bytes[..value.len()].copy_from_slice(value);
        Bytes::from_owner(Self { len: value.len().to_le_bytes()[0], bytes })
    }
}

impl<const N: usize> AsRef<[u8]> for Short<N> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A copy of a value. A short one has its reference count in the same allocation, so clones allocate nothing.
pub fn copied(value: &[u8]) -> Bytes {
    // Lengths that fill an allocation, which is a multiple of 16 bytes: with the count and the length, and what malloc adds.
    match value.len() {
        0 => Bytes::new(),
        1..=15 => Short::<15>::copied(value),
        16..=31 => Short::<31>::copied(value),
        32..=47 => Short::<47>::copied(value),
        48..=63 => Short::<63>::copied(value),
        64..=79 => Short::<79>::copied(value),
        80..=111 => Short::<111>::copied(value),
        112..=175 => Short::<175>::copied(value),
        176..=239 => Short::<239>::copied(value),
        _ => Bytes::copy_from_slice(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_any_length_is_equal() {
        let value: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for len in 0..value.len() {
            assert_eq!(copied(&value[..len]), value[..len]);
        }
    }
}
