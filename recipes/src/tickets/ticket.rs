//! [`Ticket`]: the name of one thing that is to be executed once.

use std::fmt;
use std::str::FromStr;

use uuid::{Builder, Uuid, Variant};
use zoolet_client::Client;
use zoolet_client::internal::ClientExt as _;

use crate::unique::unique_number;

/// An idempotency key: the name of one thing that is to be executed once. A uuid of version 7, which contains the time of
/// its generation.
///
/// From [`Tickets::generate`](crate::Tickets::generate). It is displayed as a uuid and parsed from one, so that it can be
/// stored, sent and kept over retries. Uuids that other programs have generated work as well.
///
/// ```
/// # use zoolet_recipes::Ticket;
/// let ticket: Ticket = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f".parse()?;
/// assert_eq!(ticket.unix_millis(), 1_645_557_742_000);
/// # Ok::<(), zoolet_recipes::InvalidTicket>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(Uuid);

/// The text is not a [`Ticket`], that is, not a uuid of version 7.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid ticket {0:?}: a ticket is a uuid of version 7")]
pub struct InvalidTicket(String);

impl Ticket {
    /// A unique ticket.
    pub(crate) fn generate(client: &Client) -> Self {
        let millis = u64::try_from(client.clock().wall_millis()).unwrap_or(0);
        let number = unique_number(client).to_be_bytes();
        let mut random = [0; 10];
        random.copy_from_slice(&number[6..]);
        Self(Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// When it was generated, in milliseconds since the Unix epoch by the clock of its creator.
    pub fn unix_millis(&self) -> u64 {
        (self.0.as_u128() >> 80) as u64
    }
}

impl FromStr for Ticket {
    type Err = InvalidTicket;

    fn from_str(text: &str) -> Result<Self, InvalidTicket> {
        match Uuid::try_parse(text) {
            Ok(uuid) if uuid.get_version_num() == 7 && uuid.get_variant() == Variant::RFC4122 => {
                Ok(Self(uuid))
            }
            _ => Err(InvalidTicket(text.to_owned())),
        }
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_of_another_program_is_parsed_with_its_time() {
        // The example of RFC 9562, A.6.
        let ticket: Ticket = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F".parse().unwrap();
        assert_eq!(ticket.unix_millis(), 1_645_557_742_000);
        assert_eq!(ticket.to_string(), "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
        assert_eq!(ticket.to_string().parse(), Ok(ticket));
    }

    #[test]
    fn a_text_without_a_time_is_not_a_ticket() {
        for text in ["", "withdrawal 17", "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f"] {
            assert_eq!(text.parse::<Ticket>(), Err(InvalidTicket(text.to_owned())));
        }
    }
}
