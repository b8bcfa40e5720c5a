//! What stands in the znodes: of a scope, and of a ticket.
//!
//! ```text
//! scope    zoolet-tickets/1 <floor, seconds since the Unix epoch>
//! ticket   zoolet-ticket/1 <done|refused|pending> <SHA-256 of the parameters> <fencing token, 0 for none> <attempt>\n<outcome>
//! ```
//!
//! A first line of ASCII that a person can read, and behind it the outcome's bytes as they are.

use std::fmt;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::ticket::Ticket;

const SCOPE: &str = "zoolet-tickets/1";
const TICKET: &str = "zoolet-ticket/1";

/// How much time's tickets stand in one bucket, in seconds. A listing of a bucket is one reply, 40 bytes a ticket, of
/// which our client takes 64 MiB: 2,700 tickets a second.
const BUCKET: u64 = 600;

/// The tickets of some minutes, by the second with which they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bucket(pub(crate) u64);

impl Bucket {
    pub(crate) fn of(ticket: &Ticket) -> Self {
        Self::at(ticket.unix_millis())
    }

    /// The bucket of a time in milliseconds since the Unix epoch.
    pub(crate) fn at(millis: u64) -> Self {
        let seconds = millis / 1000;
        Self(seconds - seconds % BUCKET)
    }

    /// Of the name of its znode.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| name.parse().ok()).flatten().map(Self)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The floor of a scope: below it no ticket is executed any more.
pub(crate) fn scope(floor: Bucket) -> Bytes {
    format!("{SCOPE} {floor}").into()
}

pub(crate) fn read_scope(data: &[u8]) -> Option<Bucket> {
    let text = std::str::from_utf8(data).ok()?;
    Bucket::of_name(text.strip_prefix(SCOPE)?.strip_prefix(' ')?)
}

/// The SHA-256 of the parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash([u8; 32]);

impl Hash {
    pub(crate) fn of(params: &[u8]) -> Self {
        Self(Sha256::digest(params).into())
    }

    fn read(hex: &str) -> Option<Self> {
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        let mut hash = [0; 32];
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How far a ticket has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Begun; whether its effect has happened only the store outside can tell.
    Pending,
    /// Settled: executed, or refused on purpose.
    Settled(Result<Bytes, Bytes>),
}

/// What is known of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) state: State,
    pub(crate) hash: Hash,
    /// The fencing token under which it was done; 0 without a lock.
    pub(crate) token: u64,
    /// Which call wrote this.
    pub(crate) attempt: u128,
}

impl Record {
    pub(crate) fn encode(&self) -> Bytes {
        let (state, outcome) = match &self.state {
            State::Pending => ("pending", &[][..]),
            State::Settled(Ok(value)) => ("done", &value[..]),
            State::Settled(Err(reason)) => ("refused", &reason[..]),
        };
        let Self { hash, token, attempt, .. } = self;
        let mut data = format!("{TICKET} {state} {hash} {token} {attempt:032x}\n").into_bytes();
        data.extend_from_slice(outcome);
        data.into()
    }

    /// `None` of what was not written by [`encode`](Record::encode).
    pub(crate) fn decode(data: &Bytes) -> Option<Self> {
        let end = data.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(&data[..end]).ok()?;
        let [TICKET, state, hash, token, attempt] = head.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let outcome = data.slice(end + 1..);
        let state = match state {
            "pending" if outcome.is_empty() => State::Pending,
            "done" => State::Settled(Ok(outcome)),
            "refused" => State::Settled(Err(outcome)),
            _ => return None,
        };
        let attempt = u128::from_str_radix(attempt, 16).ok()?;
        Some(Self { state, hash: Hash::read(hash)?, token: token.parse().ok()?, attempt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: State) -> Record {
        Record { state, hash: Hash::of(b"abc"), token: 17, attempt: 0xfeed }
    }

    #[test]
    fn a_record_is_a_line_that_a_person_can_read_and_the_outcome() {
        let done = record(State::Settled(Ok("left: 70\n".into())));
        assert_eq!(
            done.encode(),
            "zoolet-ticket/1 done ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad 17 \
             0000000000000000000000000000feed\nleft: 70\n"
        );
        assert_eq!(scope(Bucket::at(1_645_557_742_000)), "zoolet-tickets/1 1645557600");
    }

    #[test]
    fn records_are_read_as_they_were_written_and_nothing_else_is() {
        for state in [
            State::Pending,
            State::Settled(Ok(Bytes::new())),
            State::Settled(Ok(Bytes::from_static(&[0, 255, b'\n']))),
            State::Settled(Err("too little money".into())),
        ] {
            let record = record(state);
            let data = record.encode();
            assert_eq!(Record::decode(&data), Some(record));
            let head = data.iter().position(|byte| *byte == b'\n').unwrap();
            for cut in 0..=head {
                assert_eq!(Record::decode(&data.slice(..cut)), None, "cut at {cut}");
            }
        }
        for text in
            ["", "\n", "zoolet-ticket/2 done", "zoolet-ticket/1 lost  0 0\n", "{\"state\": \"done\"}\n"]
        {
            assert_eq!(Record::decode(&Bytes::from(text)), None, "{text}");
        }
        assert_eq!(read_scope(&scope(Bucket(600))), Some(Bucket(600)));
        for text in
            ["", "zoolet-tickets/1", "zoolet-tickets/2 600", "zoolet-tickets/1 -600", "zoolet-tickets/1 +600"]
        {
            assert_eq!(read_scope(text.as_bytes()), None, "{text}");
        }
    }
}
