//! [`Mask`]: takes the secrets out of the frames of a connection. Their lengths stay.

use std::collections::HashSet;

use bytes::{Bytes, BytesMut};
use zoolet_proto::OpCode;

/// Where the password of a connect request begins with its length: after a version, a zxid, a timeout and a session.
const REQUEST_PASSWORD: usize = 4 + 8 + 4 + 8;
/// The same of a connect response: after a version, a timeout and a session.
const RESPONSE_PASSWORD: usize = 4 + 4 + 8;
/// How long a connect response is: with a password of 16 bytes, and perhaps another byte.
const RESPONSE_LENGTHS: [usize; 2] = [36, 37];
/// A request header: xid and opcode.
const REQUEST_HEADER: usize = 8;
/// A reply header: xid, zxid and error.
const REPLY_HEADER: usize = 16;

/// What a connection has said so far, as far as it tells which frames have secrets.
#[derive(Debug, Default)]
pub(super) struct Mask {
    pub(super) has_asked: bool,
    has_answered: bool,
    /// The xids of SASL requests.
    sasl: HashSet<[u8; 4]>,
    /// createSession requests without an answer, which is another connect response.
    announcements: usize,
}

impl Mask {
    /// The next frame of the client without its secrets: session passwords, credentials and SASL tokens.
    pub(super) fn client_frame(&mut self, payload: Bytes) -> Bytes {
        if !std::mem::replace(&mut self.has_asked, true) {
            return with_zeros(payload, |payload| field(payload, REQUEST_PASSWORD));
        }
        let opcode = payload.get(4..8).and_then(|opcode| opcode.try_into().ok()).map(i32::from_be_bytes);
        match opcode.and_then(OpCode::from_code) {
            Some(OpCode::Auth) => with_zeros(payload, credentials),
            Some(OpCode::Sasl) => {
                self.sasl.extend(payload.first_chunk());
                with_zeros(payload, |payload| field(payload, REQUEST_HEADER))
            }
            Some(OpCode::CreateSession) => {
                self.announcements += 1;
                payload
            }
            _ => payload,
        }
    }

    /// The next frame of the server without its secrets: session passwords and SASL tokens.
    pub(super) fn server_frame(&mut self, payload: Bytes) -> Bytes {
        if !std::mem::replace(&mut self.has_answered, true) {
            return with_zeros(payload, |payload| field(payload, RESPONSE_PASSWORD));
        }
        if self.announcements > 0 && RESPONSE_LENGTHS.contains(&payload.len()) && payload.starts_with(&[0; 4])
        {
            self.announcements -= 1;
            return with_zeros(payload, |payload| field(payload, RESPONSE_PASSWORD));
        }
        let is_sasl = payload.first_chunk::<4>().is_some_and(|xid| self.sasl.remove(xid));
        if is_sasl { with_zeros(payload, |payload| field(payload, REPLY_HEADER)) } else { payload }
    }
}

/// The place of the credentials in an auth request. The user of the scheme `digest` is none: it also stands in ACLs.
fn credentials(payload: &[u8]) -> Option<std::ops::Range<usize>> {
    // A kind comes first.
    let scheme = field(payload, REQUEST_HEADER + 4)?;
    let auth = field(payload, scheme.end)?;
    let user = match &payload[scheme] {
        b"digest" => payload[auth.clone()].iter().position(|byte| *byte == b':').map_or(0, |colon| colon + 1),
        _ => 0,
    };
    Some(auth.start + user..auth.end)
}

/// The bytes of a length-prefixed field that begins at `at`. What is not there has no secret; one that claims to be longer
/// than the frame ends with it.
fn field(payload: &[u8], at: usize) -> Option<std::ops::Range<usize>> {
    let length = i32::from_be_bytes(*payload.get(at..)?.first_chunk()?);
    let start = at + 4;
    let length = usize::try_from(length).unwrap_or(0);
    Some(start..payload.len().min(start + length))
}

fn with_zeros(payload: Bytes, place: impl FnOnce(&[u8]) -> Option<std::ops::Range<usize>>) -> Bytes {
    let Some(place) = place(&payload).filter(|place| !place.is_empty()) else { return payload };
    let mut masked = BytesMut::from(payload);
    masked[place].fill(0);
    masked.freeze()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use zoolet_proto::records::{AuthPacket, ConnectRequest, ConnectResponse, SaslToken};
    use zoolet_proto::{Reply, ReplyHeader, Request, SessionId, Xid, Zxid};

    use super::*;
    use crate::wire::encoding::payload;

    const SECRET: &[u8] = b"0123456789abcdef";

    fn has(payload: &[u8], part: &[u8]) -> bool {
        payload.windows(part.len()).any(|window| window == part)
    }

    fn connect() -> Bytes {
        let password = Some(Bytes::from_static(SECRET));
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(5),
            timeout: 1,
            session: SessionId(9),
            password,
            read_only: Some(true),
        };
        payload(|out| request.encode_frame(out))
    }

    fn auth(scheme: &str, auth: &'static [u8]) -> Bytes {
        let packet =
            AuthPacket { kind: 0, scheme: Some(scheme.to_owned()), auth: Some(Bytes::from_static(auth)) };
        payload(|out| Request::Auth(packet).encode_frame(Xid::AUTH, out))
    }

    #[test]
    fn passwords_of_sessions_are_zeros_and_all_else_of_the_handshake_stays() {
        let mut mask = Mask::default();
        let masked = mask.client_frame(connect());
        assert!(!has(&masked, SECRET) && masked.len() == connect().len());
        assert_eq!((&masked[..28], &masked[44..]), (&connect()[..28], &connect()[44..]));
        let password = Bytes::from_static(SECRET);
        let response = ConnectResponse {
            protocol_version: 0,
            timeout: 7,
            session: SessionId(9),
            password,
            read_only: None,
        };
        let response = payload(|out| response.encode_frame(out));
        let masked = mask.server_frame(response.clone());
        assert!(!has(&masked, SECRET) && masked.len() == response.len());
        assert_eq!(masked[..20], response[..20]);
    }

    #[test]
    fn credentials_are_zeros_but_for_the_user_of_a_digest() {
        let mut mask = Mask::default();
        mask.client_frame(connect());
        let masked = mask.client_frame(auth("digest", b"bob:0123456789"));
        assert!(has(&masked, b"digest") && has(&masked, b"bob:\0\0\0\0\0\0\0\0\0\0"), "{masked:?}");
        // A password may have colons too.
        let masked = mask.client_frame(auth("digest", b"bob:secret:more:"));
        assert!(has(&masked, b"bob:\0\0\0\0\0\0\0\0\0\0\0\0"), "{masked:?}");
        let masked = mask.client_frame(auth("other", b"bob:0123456789"));
        assert!(has(&masked, b"other") && has(&masked, &[0; 14]) && !has(&masked, b"bob"), "{masked:?}");
        // A lying length hides nothing.
        let mut cut = auth("other", b"bob:0123456789").to_vec();
        let end = cut.len() - 2;
        cut.truncate(end);
        assert!(!has(&mask.client_frame(cut.into()), b"bob"));
    }

    #[test]
    fn tokens_of_sasl_are_zeros_in_both_directions() {
        let mut mask = Mask::default();
        mask.client_frame(connect());
        mask.server_frame(connect());
        let token = || SaslToken(Some(Bytes::from_static(SECRET)));
        let request = payload(|out| Request::Sasl(token()).encode_frame(Xid(3), out));
        assert!(!has(&mask.client_frame(request), SECRET));
        let reply = |xid| {
            payload(|out| {
                Reply::Sasl(token().0).encode_frame(ReplyHeader::ok(Xid(xid), Zxid(0)), out);
            })
        };
        assert!(has(&mask.server_frame(reply(2)), SECRET), "of another request");
        assert!(!has(&mask.server_frame(reply(3)), SECRET));
    }

    #[test]
    fn the_password_of_a_session_that_is_announced_once_more_is_zeros() {
        // With the byte that says read-only, and from servers that do not send it.
        for read_only in [Some(false), None] {
            let mut mask = Mask::default();
            mask.client_frame(connect());
            let password = Bytes::from_static(SECRET);
            let session = SessionId(9);
            let response = ConnectResponse { protocol_version: 0, timeout: 7, session, password, read_only };
            let response = payload(|out| response.encode_frame(out));
            mask.server_frame(response.clone());
            mask.client_frame(payload(|out| Request::CreateSession(1).encode_frame(Xid(1), out)));
            assert!(!has(&mask.server_frame(response), SECRET), "{read_only:?}");
        }
    }

    #[test]
    fn short_frames_pass_as_they_are() {
        let mut mask = Mask::default();
        for length in 0..10 {
            let short = connect().slice(..length);
            assert_eq!(mask.client_frame(short.clone()), short);
            assert_eq!(mask.server_frame(short.clone()), short);
        }
    }
}
