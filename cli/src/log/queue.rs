//! [`LogQueue`]: log lines on their way to stderr. The server never waits for a reader of its log.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use crate::log::{LogFormat, audit};

/// The bytes that may wait; more are dropped and counted.
const LIMIT: usize = 1 << 20;

/// The bytes that may wait if the next line is the audit of a change: a client that is refused everything can cause any number of
/// other lines, and must not hide by them what others change.
const LIMIT_OF_CHANGES: usize = 2 * LIMIT;

/// How long the end of the process waits for lines that are not written yet.
const FLUSH: Duration = Duration::from_millis(200);

/// A bounded queue with a thread that empties it. Clones are the same queue.
#[derive(Clone, Default)]
pub(super) struct LogQueue(Arc<(Mutex<Lines>, Condvar)>);

#[derive(Default)]
struct Lines {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines that were dropped after those that wait.
    dropped: usize,
    writing: bool,
    format: LogFormat,
}

impl Lines {
    fn push(&mut self, line: &[u8], limit: usize) {
        if self.bytes + line.len() > limit {
            self.dropped += 1;
            return;
        }
        if self.dropped > 0 {
            let notice = self.notice();
            self.bytes += notice.len();
            self.waiting.push_back(notice);
        }
        self.bytes += line.len();
        self.waiting.push_back(line.to_vec());
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        if let Some(line) = self.waiting.pop_front() {
            self.bytes -= line.len();
            return Some(line);
        }
        (self.dropped > 0).then(|| self.notice())
    }

    fn notice(&mut self) -> Vec<u8> {
        let dropped = std::mem::take(&mut self.dropped);
        let message = format!("{dropped} log lines dropped, as nobody read stderr");
        self.format.line(Level::WARN, &message).into_bytes()
    }

    fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.dropped == 0 && !self.writing
    }
}

impl LogQueue {
    /// Starts the thread, which lives as long as the process.
    pub(super) fn start(out: impl Write + Send + 'static, format: LogFormat) -> io::Result<Self> {
        let queue = Self::default();
        queue.lock().format = format;
        let writer = queue.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || writer.write_to(out))?;
        Ok(queue)
    }

    fn write_to(&self, mut out: impl Write) {
        let (_, changed) = &*self.0;
        let mut lines = self.lock();
        loop {
            let Some(line) = lines.pop() else {
                changed.notify_all();
                lines = changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            lines.writing = true;
            drop(lines);
            // If stderr is closed, there is nowhere to say so.
            let _ = out.write_all(&line);
            lines = self.lock();
            lines.writing = false;
        }
    }

    /// Takes a line that says why the process ends, for which there is always room.
    pub(super) fn push_last(&self, line: &str) {
        self.lock().push(line.as_bytes(), usize::MAX);
        self.0.1.notify_all();
    }

    /// Waits a moment until everything is written.
    pub(super) fn drain(&self) {
        let (_, changed) = &*self.0;
        let busy = |lines: &mut Lines| !lines.is_done();
        drop(changed.wait_timeout_while(self.lock(), FLUSH, busy));
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a line to a queue that then has at most `limit` bytes.
pub(super) struct LineWriter<'q> {
    queue: &'q LogQueue,
    limit: usize,
}

impl<'q> MakeWriter<'q> for LogQueue {
    type Writer = LineWriter<'q>;

    fn make_writer(&'q self) -> LineWriter<'q> {
        LineWriter { queue: self, limit: LIMIT }
    }

    fn make_writer_for(&'q self, event: &Metadata<'_>) -> LineWriter<'q> {
        // The audit of a refusal is an error.
        let is_change = event.target() == audit::TARGET && *event.level() != Level::ERROR;
        LineWriter { queue: self, limit: if is_change { LIMIT_OF_CHANGES } else { LIMIT } }
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.queue.lock().push(line, self.limit);
        self.queue.0.1.notify_all();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A reader that takes a line whenever the test does.
    struct Slow(Sender<Vec<u8>>, Receiver<()>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.1.recv().map_err(io::Error::other)?;
            self.0.send(line.to_vec()).map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn refusals_leave_room_for_the_audit_of_changes() {
        let ((sender, lines), (go, turn)) = (channel(), channel());
        let queue = LogQueue::start(Slow(sender, turn), LogFormat::Text).unwrap();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(queue.clone()).finish();
        let user = "x".repeat(4_000);
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..1_000 {
                tracing::error!(target: "audit", user, result = "failure");
                tracing::warn!(user, "another line");
            }
            tracing::info!(target: "audit", user, note = "longer than those", result = "success");
            tracing::warn!(user, "another line, which does not fit");
        });
        let waiting: Vec<_> =
            queue.lock().waiting.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        let [.., notice, change] = &waiting[..] else { panic!("{waiting:?}") };
        assert!(notice.ends_with(" log lines dropped, as nobody read stderr\n"), "{notice}");
        assert!(change.ends_with("result=\"success\"\n"), "{change}");
        assert!(waiting.len() > 100 && queue.lock().dropped == 1, "{}", waiting.len());
        let last = "why the process ends".repeat(LIMIT_OF_CHANGES);
        queue.push_last(&last);
        assert!(queue.lock().waiting.back().is_some_and(|line| line == last.as_bytes()));
        drop((go, lines));
    }

    #[test]
    fn a_line_says_how_many_were_dropped_where_they_are_missing() {
        let ((sender, lines), (go, turn)) = (channel(), channel());
        let queue = LogQueue::start(Slow(sender, turn), LogFormat::Text).unwrap();
        // Room for three of these, however quick the thread takes the first.
        let line = vec![b'x'; LIMIT / 3];
        for _ in 0..20 {
            queue.make_writer().write_all(&line).unwrap();
        }
        go.send(()).unwrap();
        assert_eq!(lines.recv().unwrap(), line);
        let mut seen = 1;
        let notice = loop {
            go.send(()).unwrap();
            match lines.recv().unwrap() {
                other if other == line => seen += 1,
                notice => break String::from_utf8(notice).unwrap(),
            }
        };
        assert_eq!(notice, format!("zoolet: {} log lines dropped, as nobody read stderr\n", 20 - seen));
        queue.make_writer().write_all(b"after it\n").unwrap();
        go.send(()).unwrap();
        assert_eq!(lines.recv().unwrap(), b"after it\n");
    }

    #[test]
    fn a_drain_waits_for_what_is_written_and_not_for_a_reader_that_is_stuck() {
        let ((sender, lines), (go, turn)) = (channel(), channel());
        let queue = LogQueue::start(Slow(sender, turn), LogFormat::Text).unwrap();
        queue.make_writer().write_all(b"one\n").unwrap();
        queue.drain();
        assert!(lines.try_recv().is_err(), "it has waited in vain");
        go.send(()).unwrap();
        queue.drain();
        assert_eq!(lines.try_recv().unwrap(), b"one\n");
    }
}
