//! The data of the znodes of a scope and of a ticket.
//!
//! ```text
//! scope    zoolet-tickets/1 <watermark, seconds since the Unix epoch>
//! ticket   zoolet-ticket/1 <done|refused|pending> <SHA-256 of the parameters> <fencing token, 0 for none> <attempt>\n<outcome>
//! ```
//!
//! The first line is readable ASCII; the outcome's bytes follow as they are.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::ticket::Ticket;
use crate::path::digits;

const SCOPE: &str = "zoolet-tickets/1";
const TICKET: &str = "zoolet-ticket/1";

/// The seconds of one partition. A listing of a partition is one reply with 40 bytes per ticket. Our client takes replies of
/// 64 MiB: 2,700 tickets a second.
const PARTITION: u64 = 600;

/// The tickets of some minutes, named by the second with which they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Partition(pub(crate) u64);

impl Partition {
    pub(crate) fn of(ticket: &Ticket) -> Self {
        Self::at(ticket.unix_millis())
    }

    /// The partition of a time in milliseconds since the Unix epoch.
    pub(crate) fn at(millis: u64) -> Self {
        let seconds = millis / 1000;
        Self(seconds - seconds % PARTITION)
    }

    /// Parses the name of its znode.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        digits(name).map(Self)
    }
}

/// The data of a scope.
pub(crate) fn scope(watermark: Partition) -> Bytes {
    format!("{SCOPE} {}", watermark.0).into()
}

/// The watermark of a scope; `None` if the data was not written by [`scope`].
pub(crate) fn read_scope(data: &[u8]) -> Option<Partition> {
    let text = std::str::from_utf8(data).ok()?;
    Partition::of_name(text.strip_prefix(SCOPE)?.strip_prefix(' ')?)
}

/// The SHA-256 of the parameters, in hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParamsHash(String);

impl ParamsHash {
    pub(crate) fn of(params: &[u8]) -> Self {
        Self(Sha256::digest(params).iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn read(hex: &str) -> Option<Self> {
        let valid = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        valid.then(|| Self(hex.to_ascii_lowercase()))
    }
}

/// The state of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordState {
    /// Begun; only the store outside knows whether its effect was executed.
    Pending,
    /// Settled: executed, or refused on purpose.
    Settled(Result<Bytes, Bytes>),
}

/// The record of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TicketRecord {
    pub(crate) state: RecordState,
    pub(crate) hash: ParamsHash,
    /// The fencing token of the lock; 0 without a lock.
    pub(crate) token: u64,
    /// The call that wrote this.
    pub(crate) attempt: u128,
}

impl TicketRecord {
    pub(crate) fn encode(&self) -> Bytes {
        let (state, outcome) = match &self.state {
            RecordState::Pending => ("pending", &[][..]),
            RecordState::Settled(Ok(value)) => ("done", &value[..]),
            RecordState::Settled(Err(reason)) => ("refused", &reason[..]),
        };
        let Self { hash: ParamsHash(hash), token, attempt, .. } = self;
        let mut data = format!("{TICKET} {state} {hash} {token} {attempt:032x}\n").into_bytes();
        data.extend_from_slice(outcome);
        data.into()
    }

    /// `None` if the data was not written by [`encode`](TicketRecord::encode).
    pub(crate) fn decode(data: &Bytes) -> Option<Self> {
        let end = data.iter().position(|byte| *byte == b'\n')?;
        let head = std::str::from_utf8(&data[..end]).ok()?;
        let [TICKET, state, hash, token, attempt] = head.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let outcome = data.slice(end + 1..);
        let state = match state {
            "pending" if outcome.is_empty() => RecordState::Pending,
            "done" => RecordState::Settled(Ok(outcome)),
            "refused" => RecordState::Settled(Err(outcome)),
            _ => return None,
        };
        let attempt = u128::from_str_radix(attempt, 16).ok()?;
        Some(Self { state, hash: ParamsHash::read(hash)?, token: token.parse().ok()?, attempt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: RecordState) -> TicketRecord {
        TicketRecord { state, hash: ParamsHash::of(b"abc"), token: 17, attempt: 0xfeed }
    }

    #[test]
    fn a_record_is_a_readable_line_and_the_outcome() {
        let done = record(RecordState::Settled(Ok("left: 70\n".into())));
        assert_eq!(
            done.encode(),
            "zoolet-ticket/1 done ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad 17 \
             0000000000000000000000000000feed\nleft: 70\n"
        );
        assert_eq!(scope(Partition::at(1_645_557_742_000)), "zoolet-tickets/1 1645557600");
    }

    #[test]
    fn only_what_encode_wrote_is_decoded() {
        for state in [
            RecordState::Pending,
            RecordState::Settled(Ok(Bytes::new())),
            RecordState::Settled(Ok(Bytes::from_static(&[0, 255, b'\n']))),
            RecordState::Settled(Err("too little money".into())),
        ] {
            let record = record(state);
            let data = record.encode();
            assert_eq!(TicketRecord::decode(&data), Some(record));
            let head = data.iter().position(|byte| *byte == b'\n').unwrap();
            for cut in 0..=head {
                assert_eq!(TicketRecord::decode(&data.slice(..cut)), None, "cut at {cut}");
            }
        }
        for text in
            ["", "\n", "zoolet-ticket/2 done", "zoolet-ticket/1 lost  0 0\n", "{\"state\": \"done\"}\n"]
        {
            assert_eq!(TicketRecord::decode(&Bytes::from(text)), None, "{text}");
        }
        assert_eq!(read_scope(&scope(Partition(600))), Some(Partition(600)));
        for text in
            ["", "zoolet-tickets/1", "zoolet-tickets/2 600", "zoolet-tickets/1 -600", "zoolet-tickets/1 +600"]
        {
            assert_eq!(read_scope(text.as_bytes()), None, "{text}");
        }
    }
}
