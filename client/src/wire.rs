//! A stream to a server, and what has come by it and is not taken yet.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use zoolet_proto::frame::{self, BadLength};

use crate::session::{Link, Session};
use crate::transport::Connection;

/// Most reads before something else is looked at.
const IN_A_ROW: usize = 4;
/// Room made for each read. What arrives in pieces grows the buffer piece by piece.
const READ: usize = 16 * 1024;
/// Capacity above which an empty buffer is not kept.
const KEEP: usize = 1024 * 1024;
/// Header of a reply.
const HEADER: usize = 16;
/// The longest answer to a connect request that anybody sends.
const MAX_WELCOME: usize = 4096;

pub(crate) struct Wire {
    stream: Box<dyn Connection>,
    inbox: BytesMut,
    /// Bytes still to come of a reply that is too large to be read.
    skip: usize,
    unflushed: bool,
    /// Why nothing can be written any more.
    unwritable: Option<io::Error>,
}

impl Wire {
    pub(crate) fn new(stream: Box<dyn Connection>) -> Self {
        let inbox = BytesMut::with_capacity(READ);
        Self { stream, inbox, skip: 0, unflushed: false, unwritable: None }
    }

    /// Writes what is to be written and reads what there is; whether there may be more to do.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        session: &mut Session,
        now: Instant,
    ) -> io::Result<bool> {
        if self.unwritable.is_none() {
            self.unwritable = self.poll_write(cx, session.out()).err();
        }
        // What is left now waits for room, or for nothing any more: the stream says when to go on.
        let stuck = !session.out().is_empty() || self.unwritable.is_some();
        // A peer that takes nothing more may have answered before it went: all of that counts, and what ends the
        // connection is the end of that. Should it not come, silence does.
        match self.poll_read(cx, session, now) {
            Ok(more) => Ok(more || (!stuck && !session.out().is_empty())),
            Err(error) => Err(self.unwritable.take().unwrap_or(error)),
        }
    }

    /// Writes until everything is written and flushed, or nothing more can be for now.
    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> io::Result<()> {
        while !out.is_empty() {
            match pin!(self.stream.write_buf(out)).poll(cx) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => written?,
                Poll::Pending => return Ok(()),
            };
            self.unflushed = true;
        }
        if out.capacity() > KEEP {
            *out = BytesMut::new();
        }
        if self.unflushed {
            if let Poll::Ready(flushed) = pin!(self.stream.flush()).poll(cx) {
                flushed?;
                self.unflushed = false;
            }
        }
        Ok(())
    }

    /// Writes all of `out`, and reads until there is a whole frame.
    pub(crate) fn poll_first_frame(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut BytesMut,
    ) -> Poll<io::Result<()>> {
        self.poll_write(cx, out)?;
        loop {
            if self.first_frame().is_some() {
                return Poll::Ready(Ok(()));
            }
            if self.inbox.len() > MAX_WELCOME {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            if ready!(pin!(self.stream.read_buf(&mut self.inbox)).poll(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// The first frame of what has come, if it is whole.
    pub(crate) fn first_frame(&self) -> Option<&[u8]> {
        frame::split(&self.inbox, MAX_WELCOME).ok().flatten()
    }

    /// Reads until there is nothing more for now; whether there may be more, or the session has taken another way.
    fn poll_read(&mut self, cx: &mut Context<'_>, session: &mut Session, now: Instant) -> io::Result<bool> {
        for _ in 0..IN_A_ROW {
            self.inbox.reserve(READ);
            match pin!(self.stream.read_buf(&mut self.inbox)).poll(cx) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Poll::Ready(read) => read?,
                Poll::Pending => return Ok(false),
            };
            session.handle_heard(now);
            self.take_frames(session, now)?;
            if self.inbox.is_empty() && self.inbox.capacity() > KEEP {
                self.inbox = BytesMut::with_capacity(READ);
            }
            if session.link() != Link::Up {
                break;
            }
        }
        Ok(true)
    }

    /// Hands what has come to the session, as far as it is whole.
    pub(crate) fn take_frames(&mut self, session: &mut Session, now: Instant) -> io::Result<()> {
        let broken = |reason: &'static str| io::Error::new(io::ErrorKind::InvalidData, reason);
        while session.link() == Link::Up {
            let skipped = self.skip.min(self.inbox.len());
            self.inbox.advance(skipped);
            self.skip -= skipped;
            match frame::split(&self.inbox, session.max_reply()) {
                Ok(Some(frame)) => {
                    let length = frame::PREFIX + frame.len();
                    session.handle_frame(now, frame).map_err(|reason| broken(reason.0))?;
                    self.inbox.advance(length);
                }
                Ok(None) => return Ok(()),
                Err(BadLength { length, .. }) => {
                    let size = usize::try_from(length).ok().filter(|size| *size > HEADER);
                    let size = size.ok_or_else(|| broken("a length that no frame has"))?;
                    let Some(header) = self.inbox.get(frame::PREFIX..frame::PREFIX + HEADER) else {
                        return Ok(());
                    };
                    session.handle_oversize(now, header, size).map_err(|reason| broken(reason.0))?;
                    self.skip = frame::PREFIX + size;
                }
            }
        }
        Ok(())
    }
}
