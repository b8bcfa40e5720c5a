//! Text in messages: values of other origin, and values that must not appear.

use std::fmt;

/// Escapes text of other origin, so that it fits in one line of a message.
pub(crate) fn quoted(text: &str) -> String {
    text.escape_debug().to_string()
}

/// A value that must not appear in logs and errors.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_appear_in_debug_output() {
        assert_eq!(format!("{:?}", Secret::from("super:x")), "(secret)");
    }
}
