//! Text in messages.

/// Escapes text of other origin, so that it fits in one line of a message.
pub(crate) fn quoted(text: &str) -> String {
    text.escape_debug().to_string()
}
