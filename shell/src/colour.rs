//! Colours: for people only, where the output is a terminal that has them and the environment does not refuse them (`NO_COLOR`).

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// An error.
pub(crate) const ERROR: Style = AnsiColor::Red.on_default();
/// The name of a znode that has children.
pub(crate) const PARENT: Style = AnsiColor::Blue.on_default().bold();
/// What is there now, or only in the second of two trees.
const ADDED: Style = AnsiColor::Green.on_default();
/// What was there, or is only in the first of two trees.
const REMOVED: Style = AnsiColor::Red.on_default();
/// What differs, or where.
const CHANGED: Style = AnsiColor::Cyan.on_default();

/// Whether what is printed here may have colours.
pub(crate) fn is_wanted(out: &impl RawStream) -> bool {
    AutoStream::choice(out) != ColorChoice::Never
}

/// The style of a line of a difference, by its sign.
pub(crate) fn of_difference(line: &str) -> Style {
    match line.chars().next() {
        Some('+') => ADDED,
        Some('-') => REMOVED,
        Some('~' | '@') => CHANGED,
        _ => Style::new(),
    }
}

/// The style of a line that begins with what happened to a znode.
pub(crate) fn of_event(event: &str) -> Style {
    match event {
        "created" => ADDED,
        "deleted" => REMOVED,
        _ => CHANGED,
    }
}
