//! The connection beside the one that serves, by which a server is looked for that takes writes.

use std::mem;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::time::Instant;

use crate::session::Session;
use crate::transport::{Dialing, Transport};
use crate::wire::Wire;

/// Where the look for another server stands.
#[derive(Default)]
pub(crate) enum Search {
    #[default]
    Off,
    Dialing(Dialing),
    /// What is still to be written, and the wire that the answer comes by.
    Asking(BytesMut, Wire),
}

impl Search {
    /// Moves it on as far as the session wants it. Gives a wire to a server that has answered: the frame is in its inbox.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        session: &mut Session,
        transport: &mut Transport,
        now: Instant,
    ) -> Option<Wire> {
        loop {
            if !session.searches() {
                *self = Self::Off;
                return None;
            }
            let outcome = match self {
                Self::Off => {
                    *self = Self::Dialing(transport.dial());
                    continue;
                }
                Self::Dialing(dialing) => dialing.as_mut().poll(cx).map_ok(Some),
                Self::Asking(out, wire) => wire.poll_first_frame(cx, out).map_ok(|()| None),
            };
            match outcome {
                Poll::Pending => return None,
                Poll::Ready(Ok(Some(stream))) => {
                    *self = Self::Asking(session.handle_search_connected(now), Wire::new(stream));
                }
                Poll::Ready(Ok(None)) => {
                    let Self::Asking(_, wire) = mem::take(self) else { return None };
                    if wire.first_frame().is_some_and(|frame| session.handle_search_answered(now, frame)) {
                        return Some(wire);
                    }
                }
                Poll::Ready(Err(error)) => {
                    tracing::debug!(%error, "no server that takes writes");
                    session.handle_search_failed(now);
                }
            }
        }
    }
}
