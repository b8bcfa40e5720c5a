//! Text in messages.

/// Escapes text of other origin, so that it fits in one line of a message.
pub(crate) fn quoted(text: &str) -> String {
    text.escape_debug().to_string()
}

/// A number of things.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}
