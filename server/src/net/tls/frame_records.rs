//! Replies in records of their own.

use std::io::{self, IoSlice, Write};

use smallvec::SmallVec;
use zoolet_proto::frame::PREFIX;

/// Where in a frame the next byte is that is written.
///
/// Each frame gets a record of its own, as from Apache's server. A client that waits for its socket before each frame, as kazoo does,
/// does not notice the second frame of a record until something else comes: it was read from the socket with the first one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FrameRecords {
    prefix: [u8; PREFIX],
    /// How many bytes of the prefix were written.
    begun: usize,
    /// How many bytes of the frame are to come. The answer to a four-letter word is in no frame: as a prefix, its text promises more
    /// than ever comes, so that it is not divided.
    left: usize,
}

impl FrameRecords {
    /// Writes what the session takes, frame by frame, and returns how many bytes that were.
    pub(crate) fn write(&mut self, session: &mut impl Write, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut written = 0;
        let mut before = *self;
        let mut frame = SmallVec::<[IoSlice<'_>; 4]>::new();
        let mut slices = slices.iter().map(|slice| &**slice).filter(|slice| !slice.is_empty());
        let mut rest = slices.next();
        while let Some(bytes) = rest {
            let (part, behind) = bytes.split_at(self.advance(bytes));
            frame.push(IoSlice::new(part));
            rest = if behind.is_empty() { slices.next() } else { Some(behind) };
            if !self.is_between_frames() && rest.is_some() {
                continue;
            }
            let taken = session.write_vectored(&frame)?;
            written += taken;
            if taken < frame.iter().map(|part| part.len()).sum() {
                *self = before;
                self.advance_over(&frame, taken);
                break;
            }
            frame.clear();
            before = *self;
        }
        Ok(written)
    }

    fn is_between_frames(&self) -> bool {
        self.begun == 0 && self.left == 0
    }

    /// Counts the bytes up to the end of a frame as written, and returns how many these are.
    fn advance(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while self.left == 0 && taken < bytes.len() {
            self.prefix[self.begun] = bytes[taken];
            self.begun += 1;
            taken += 1;
            if self.begun == PREFIX {
                self.begun = 0;
                self.left = u32::from_be_bytes(self.prefix) as usize;
                if self.left == 0 {
                    break;
                }
            }
        }
        let body = self.left.min(bytes.len() - taken);
        self.left -= body;
        taken + body
    }

    fn advance_over(&mut self, parts: &[IoSlice<'_>], mut count: usize) {
        for part in parts {
            let mut part = &part[..count.min(part.len())];
            count -= part.len();
            while !part.is_empty() {
                part = &part[self.advance(part)..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes the pieces, and takes at most `room` bytes of each.
    struct Pieces {
        taken: Vec<Vec<u8>>,
        room: usize,
    }

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut all = slices.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<_>>();
            all.truncate(self.room);
            self.taken.push(all.clone());
            Ok(all.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written of these slices in one go.
    fn pieces(records: &mut FrameRecords, slices: &[&[u8]], room: usize) -> Vec<Vec<u8>> {
        let mut pieces = Pieces { taken: Vec::new(), room };
        let slices = slices.iter().map(|slice| IoSlice::new(slice)).collect::<Vec<_>>();
        let written = records.write(&mut pieces, &slices).unwrap();
        assert_eq!(written, pieces.taken.iter().map(Vec::len).sum::<usize>());
        pieces.taken
    }

    const A: &[u8] = b"\0\0\0\x03abc";
    const B: &[u8] = b"\0\0\0\x01d";
    const EMPTY: &[u8] = b"\0\0\0\0";

    #[test]
    fn each_frame_is_written_by_itself_wherever_slices_end() {
        let all = [A, EMPTY, B].concat();
        for first in 0..all.len() {
            for second in first..all.len() {
                let slices = [&all[..first], &all[first..second], &all[second..]];
                assert_eq!(
                    pieces(&mut FrameRecords::default(), &slices, 100),
                    [A, EMPTY, B],
                    "{first}, {second}"
                );
            }
        }
    }

    #[test]
    fn what_is_not_taken_is_written_as_the_rest_of_its_frame() {
        let all = [A, B, A].concat();
        for room in 1..=7 {
            let mut records = FrameRecords::default();
            let mut found = Vec::new();
            let mut rest = &all[..];
            while !rest.is_empty() {
                let taken = pieces(&mut records, &[rest], room);
                rest = &rest[taken.iter().map(Vec::len).sum::<usize>()..];
                found.extend(taken);
            }
            let expected = [A, B, A].into_iter().flat_map(|frame| frame.chunks(room)).collect::<Vec<_>>();
            assert_eq!(found, expected, "{room}");
        }
    }

    #[test]
    fn text_that_is_in_no_frame_is_written_as_it_comes() {
        let mut records = FrameRecords::default();
        assert_eq!(
            pieces(&mut records, &[b"Zookeeper version: ", b"3.9.5"], 100),
            [b"Zookeeper version: 3.9.5"]
        );
        assert_eq!(pieces(&mut records, &[EMPTY, B], 100), [[EMPTY, B].concat()]);
    }
}
