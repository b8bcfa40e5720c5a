//! The difference of two texts, by line.

use similar::TextDiff;

/// Lines that are the same, around those that are not.
const CONTEXT: usize = 2;

/// What changed from one to the other, in the unified format without its header; the lengths if one is not text.
pub(crate) fn of_data(old: &[u8], new: &[u8]) -> String {
    match (std::str::from_utf8(old), std::str::from_utf8(new)) {
        (Ok(old), Ok(new)) => {
            let diff = TextDiff::from_lines(old, new);
            let text = diff.unified_diff().context_radius(CONTEXT).missing_newline_hint(false).to_string();
            // What would move the cursor is escaped, line by line.
            text.lines().map(|line| crate::text::shown(line) + "\n").collect()
        }
        _ => format!("{} bytes are now {}, and not text\n", old.len(), new.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_the_lines_of_both() {
        assert_eq!(of_data(b"a\nb\nc", b"a\nB\nc"), "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
        assert_eq!(of_data(b"a", b"\xff\xff"), "1 bytes are now 2, and not text\n");
        assert_eq!(of_data(b"", b"\x1b[2J"), "@@ -0,0 +1 @@\n+\\u{1b}[2J\n");
    }
}
