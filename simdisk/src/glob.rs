//! Patterns with stars, for names and for lists of names.

/// Whether `text` matches `pattern`, in which `star` stands for any run of items. Only the last star is ever tried again
/// with a longer run, so that the cost is bounded by the product of the lengths.
pub fn matches<T: PartialEq>(pattern: &[T], text: &[T], star: &T, fits: impl Fn(&T, &T) -> bool) -> bool {
    let (mut p, mut t, mut retry) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(wanted) if wanted == star => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(wanted) if fits(&text[t], wanted) => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((after, from)) = retry else { return false };
                (p, t) = (after, from + 1);
                retry = Some((after, t));
            }
        }
    }
    pattern[p..].iter().all(|rest| rest == star)
}
