//! The thread that writes a capture: splits what has passed into frames, masks them, and appends them to the file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;

use super::format::{MAGIC, OBSERVER, Record, RecordKind, write_record};
use super::mask::Mask;
use crate::error::CaptureError;
use crate::history::Side;
use crate::wire::conversation::Frames;

/// How much was captured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captured {
    /// How many connections clients have opened.
    pub connections: u64,
    /// How many frames have passed, in both directions.
    pub frames: u64,
    /// What the file does not show, if something could not be recorded or forwarded, and why.
    pub warnings: Vec<String>,
}

/// Something that the proxy has seen.
#[derive(Debug)]
pub(super) struct Seen {
    /// Since the begin of the capture.
    pub(super) time: Duration,
    pub(super) connection: u32,
    pub(super) what: CaptureEvent,
}

#[derive(Debug)]
pub(super) enum CaptureEvent {
    Opened,
    /// Bytes from this end, after they have been forwarded.
    Bytes(Side, Bytes),
    /// This end has ended the connection.
    Ended(Side),
    /// Nothing more comes of it.
    Over,
    /// The payload of an event that the capture itself has got.
    Observed(Bytes),
}

/// Writes what comes, until nothing more can come.
pub(super) fn write(file: File, path: &Path, mut seen: Receiver<Seen>) -> Result<Captured, CaptureError> {
    let fail = |source| CaptureError::write(path, source);
    let mut writer = Writer {
        out: BufWriter::with_capacity(1 << 18, file),
        connections: HashMap::new(),
        captured: Captured::default(),
        last: Duration::ZERO,
    };
    writer.out.write_all(&MAGIC).map_err(fail)?;
    loop {
        let next = match seen.try_recv() {
            Ok(next) => next,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                // The file shows what has happened whenever nothing happens, and a full disk is noticed at once.
                writer.out.flush().map_err(fail)?;
                match seen.blocking_recv() {
                    Some(next) => next,
                    None => break,
                }
            }
        };
        writer.add(next).map_err(fail)?;
    }
    writer.finish().map_err(fail)
}

struct Writer {
    out: BufWriter<File>,
    connections: HashMap<u32, Connection>,
    captured: Captured,
    last: Duration,
}

/// A connection that is open.
#[derive(Default)]
struct Connection {
    client: Direction,
    server: Direction,
    mask: Mask,
}

/// The bytes of one end.
#[derive(Default)]
struct Direction {
    frames: Frames,
    /// Whether the bytes are not frames.
    is_raw: bool,
}

impl Writer {
    fn add(&mut self, seen: Seen) -> io::Result<()> {
        self.last = seen.time;
        match seen.what {
            CaptureEvent::Opened => {
                self.captured.connections += 1;
                self.connections.insert(seen.connection, Connection::default());
                self.put(seen.connection, RecordKind::Opened, Bytes::new())
            }
            CaptureEvent::Bytes(end, bytes) => {
                let Some(connection) = self.connections.get_mut(&seen.connection) else { return Ok(()) };
                for (kind, content) in connection.add(end, bytes) {
                    self.captured.frames += u64::from(matches!(kind, RecordKind::Frame(_)));
                    self.put(seen.connection, kind, content)?;
                }
                Ok(())
            }
            CaptureEvent::Ended(end) => self.put(seen.connection, RecordKind::Ended(end), Bytes::new()),
            CaptureEvent::Observed(event) => self.put(OBSERVER, RecordKind::Frame(Side::Server), event),
            CaptureEvent::Over => {
                let Some(connection) = self.connections.remove(&seen.connection) else { return Ok(()) };
                for (kind, rest) in connection.rest() {
                    self.put(seen.connection, kind, rest)?;
                }
                Ok(())
            }
        }
    }

    fn put(&mut self, connection: u32, kind: RecordKind, content: Bytes) -> io::Result<()> {
        write_record(&Record { time: self.last, connection, kind, content }, &mut self.out)
    }

    /// Says that the file is whole, and sees that it is on the disk.
    fn finish(mut self) -> io::Result<Captured> {
        self.put(0, RecordKind::Finished, Bytes::new())?;
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        Ok(self.captured)
    }
}

impl Connection {
    /// What becomes whole with these bytes.
    fn add(&mut self, end: Side, bytes: Bytes) -> Vec<(RecordKind, Bytes)> {
        let direction = match end {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        if direction.is_raw {
            return vec![(RecordKind::Bytes(end), bytes)];
        }
        direction.frames.add(&bytes);
        if end == Side::Client && !self.mask.has_asked && direction.frames.word().is_some() {
            let word = direction.frames.take();
            // The answer is text as well.
            (self.client.is_raw, self.server.is_raw) = (true, true);
            return vec![(RecordKind::Bytes(end), word)];
        }
        let mut whole = Vec::new();
        loop {
            match direction.frames.next() {
                Ok(None) => return whole,
                Ok(Some(payload)) => {
                    let masked = match end {
                        Side::Client => self.mask.client_frame(payload),
                        Side::Server => self.mask.server_frame(payload),
                    };
                    whole.push((RecordKind::Frame(end), masked));
                }
                Err(_) => {
                    direction.is_raw = true;
                    whole.push((RecordKind::Bytes(end), direction.frames.take()));
                    return whole;
                }
            }
        }
    }

    /// Frames that have not become whole, as zeros: a part of a secret may be in them.
    fn rest(self) -> impl Iterator<Item = (RecordKind, Bytes)> {
        let rest = [(Side::Client, self.client), (Side::Server, self.server)];
        rest.into_iter().filter(|(_, direction)| direction.frames.pending() > 0).map(|(end, direction)| {
            (RecordKind::Bytes(end), BytesMut::zeroed(direction.frames.pending()).freeze())
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::capture::format::Records;

    /// The bytes that are recorded of these bytes of both ends, whose connection then ends.
    fn recorded(client: &'static [u8], server: &'static [u8]) -> Vec<(RecordKind, Bytes)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.cap");
        let (sender, seen) = tokio::sync::mpsc::channel(10);
        let what = [
            CaptureEvent::Opened,
            CaptureEvent::Bytes(Side::Client, Bytes::from_static(client)),
            CaptureEvent::Bytes(Side::Server, Bytes::from_static(server)),
            CaptureEvent::Ended(Side::Client),
            CaptureEvent::Over,
        ];
        for what in what {
            sender.try_send(Seen { time: Duration::ZERO, connection: 1, what }).unwrap();
        }
        drop(sender);
        write(File::create(&path).unwrap(), &path, seen).unwrap();
        let mut records = Records::open(&path).unwrap();
        let mut bytes = Vec::new();
        while let Some(record) = records.next().unwrap() {
            if !record.content.is_empty() {
                bytes.push((record.kind, record.content));
            }
        }
        bytes
    }

    #[test]
    fn what_is_left_of_a_frame_that_did_not_become_whole_is_zeros() {
        // The begins of a connect request and of its answer, each with a part of a password.
        let bytes = recorded(b"\0\0\0\x2dsecret", b"\0\0\0\x25hidden");
        assert_eq!(
            bytes,
            [
                (RecordKind::Bytes(Side::Client), Bytes::from_static(&[0; 10])),
                (RecordKind::Bytes(Side::Server), Bytes::from_static(&[0; 10]))
            ]
        );
        // So is it after a frame, as of an auth request.
        let bytes = recorded(b"\0\0\0\x04ping\0\0\0\x22digest bob:secret", b"");
        assert_eq!(bytes.len(), 2, "{bytes:?}");
        assert_eq!(bytes[1], (RecordKind::Bytes(Side::Client), Bytes::from_static(&[0; 21])));
    }
}
