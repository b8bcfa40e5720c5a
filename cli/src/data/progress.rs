//! A progress bar for what takes longer than a second.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Less is over before a bar would help.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// A progress bar on stderr, if that is a terminal. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    since: Instant,
    /// Whether the bar may be shown, and is not yet.
    waits: bool,
}

impl Progress {
    /// Shows a bar during some work, which reports the bytes that are done and those of all files. `doing` is what the bar says, such as
    /// `reading`.
    pub(super) fn during<T>(doing: &'static str, work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> T) -> T {
        let mut progress = Self::new(doing, io::stderr().is_terminal());
        work(&mut |done, total| progress.report(done, total))
    }

    /// A bar that is not shown if lines are printed to a terminal meanwhile.
    pub(super) fn beside_lines(doing: &'static str) -> Self {
        Self::new(doing, io::stderr().is_terminal() && !io::stdout().is_terminal())
    }

    fn new(doing: &'static str, may_show: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let template = "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(doing);
        Self { bar, since: Instant::now(), waits: may_show }
    }

    /// Reports the bytes that are done, and those of all files.
    pub(super) fn report(&mut self, done: u64, total: u64) {
        self.report_after(self.since.elapsed(), done, total);
    }

    fn report_after(&mut self, elapsed: Duration, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
        if self.waits && elapsed >= SHOWN_AFTER {
            self.waits = false;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_appears_after_a_second_on_a_terminal_only() {
        for is_terminal in [false, true] {
            let mut progress = Progress::new("reading", is_terminal);
            progress.report_after(Duration::from_millis(999), 10, 100);
            assert_eq!((progress.waits, progress.bar.position()), (is_terminal, 10));
            progress.report_after(Duration::from_secs(1), 20, 200);
            assert!(!progress.waits);
            assert_eq!((progress.bar.position(), progress.bar.length()), (20, Some(200)));
        }
    }
}
