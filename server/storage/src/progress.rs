//! [`Meter`]: how far a long operation has come.

/// Reports the bytes that are done, and how many there are in all, at most once per megabyte.
pub(crate) struct Meter<'r> {
    report: &'r mut dyn FnMut(u64, u64),
    total: u64,
    /// The bytes of all parts that are done.
    done: u64,
    reported: u64,
}

impl<'r> Meter<'r> {
    pub(crate) fn new(report: &'r mut dyn FnMut(u64, u64)) -> Self {
        Self { report, total: 0, done: 0, reported: 0 }
    }

    /// Adds to the total.
    pub(crate) fn expect(&mut self, bytes: u64) {
        self.total += bytes;
    }

    /// Reports how many bytes of the current part are done.
    pub(crate) fn at(&mut self, bytes: u64) {
        let now = self.done + bytes;
        if now >= self.reported + (1 << 20) {
            self.reported = now;
            (self.report)(now.min(self.total), self.total);
        }
    }

    /// Ends the current part, which had this many bytes.
    pub(crate) fn end(&mut self, bytes: u64) {
        self.done += bytes;
        self.at(0);
    }

    /// Reports that everything is done.
    pub(crate) fn finish(self) {
        (self.report)(self.total, self.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_never_goes_back_nor_beyond_the_total() {
        let mut reports = Vec::new();
        let mut report = |done, total| reports.push((done, total));
        let mut meter = Meter::new(&mut report);
        meter.expect(10 << 20);
        for step in 0..=100 {
            meter.at(step << 16);
        }
        meter.end(5 << 20);
        meter.at(100 << 20);
        meter.end(5 << 20);
        meter.finish();
        assert!(reports.len() >= 6 && reports.len() < 20, "{reports:?}");
        assert!(reports.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{reports:?}");
        assert_eq!(reports.last(), Some(&(10 << 20, 10 << 20)));
    }
}
