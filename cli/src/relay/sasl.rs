//! SASL DIGEST-MD5 on behalf of a client that does not speak it, byte by byte.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zoolet_proto::records::{ConnectResponse, SaslToken};
use zoolet_proto::{Jute as _, ReplyHeader, Request, Xid, digest_md5, frame, jute};

use super::{ServerStream, read_frame};

/// The longest answer to a handshake, or token, that is read.
const MAX_ANSWER: usize = 4096;

/// Passes on the handshake of a session, and authenticates before the client learns that it has one. What is not a handshake is only
/// passed on. Returns whether there is more to pass on.
pub(super) async fn shake_hands(
    client: &mut TcpStream,
    server: &mut Box<dyn ServerStream>,
    user: &str,
    password: &str,
) -> io::Result<bool> {
    let mut length = [0; 4];
    let mut begun = 0;
    while begun < length.len() {
        match client.read(&mut length[begun..]).await? {
            0 => {
                server.write_all(&length[..begun]).await?;
                return Ok(false);
            }
            read => begun += read,
        }
    }
    let Some(size) = usize::try_from(i32::from_be_bytes(length)).ok().filter(|size| *size <= MAX_ANSWER)
    else {
        // A four-letter word, or nonsense.
        server.write_all(&length).await?;
        return Ok(true);
    };
    let mut request = length.to_vec();
    request.resize(length.len() + size, 0);
    client.read_exact(&mut request[length.len()..]).await?;
    server.write_all(&request).await?;
    server.flush().await?;
    let Ok(response) = read_frame(server, MAX_ANSWER).await else { return Ok(false) };
    let opened = jute::parse::<ConnectResponse>(&response).is_ok_and(|response| !response.is_refusal());
    if opened {
        authenticate(server, user, password).await?;
    }
    let mut answer = BytesMut::new();
    frame::put(&mut answer, |out| out.extend_from_slice(&response));
    client.write_all(&answer).await?;
    Ok(opened)
}

/// Two requests that the client does not know of. Their xids are those that no client begins with.
async fn authenticate(server: &mut Box<dyn ServerStream>, user: &str, password: &str) -> io::Result<()> {
    let challenge = ask(server, Xid(i32::MAX - 1), &[]).await?;
    let mut random = [0; 30];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let cnonce = digest_md5::nonce(random);
    let response = digest_md5::respond(&challenge, user, password, &cnonce).map_err(io::Error::other)?;
    let confirmation = ask(server, Xid(i32::MAX), response.token()).await?;
    match response.is_confirmed_by(&confirmation) {
        true => Ok(()),
        false => Err(io::Error::other("SASL: the server does not show that it knows the password")),
    }
}

/// Sends a token, and returns that of the answer.
async fn ask(server: &mut Box<dyn ServerStream>, xid: Xid, token: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = BytesMut::new();
    Request::Sasl(SaslToken(Some(token.to_vec().into()))).encode_frame(xid, &mut bytes);
    server.write_all(&bytes).await?;
    server.flush().await?;
    let answer = read_frame(server, MAX_ANSWER)
        .await
        .map_err(|_| io::Error::other("SASL: the server closes the connection"))?;
    let mut rest = &*answer;
    let header = ReplyHeader::decode(&mut rest).map_err(io::Error::other)?;
    if let Some(code) = header.error_code() {
        return Err(io::Error::other(format!("SASL: the server refuses the user or the password: {code}")));
    }
    let SaslToken(token) = jute::parse(rest).map_err(io::Error::other)?;
    Ok(token.unwrap_or_default().to_vec())
}
