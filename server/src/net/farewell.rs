//! Bytes to a peer that may take them slowly or not at all, and the end of a connection.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Sends bytes; false if it was given up. `patience` begins anew whenever some of them are taken, and `took` is told if
/// there are more.
pub(crate) async fn send_all<P: Future<Output = ()>>(
    writer: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    patience: impl Fn() -> P,
    took: impl Fn(),
) -> io::Result<bool> {
    while !bytes.is_empty() {
        let writing = async {
            let written = writer.write(bytes).await?;
            if written == bytes.len() {
                // Streams that were handed in may buffer what is written.
                writer.flush().await?;
            }
            io::Result::Ok(written)
        };
        let written = tokio::select! {
            biased;
            written = writing => written?,
            () = patience() => return Ok(false),
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        if !bytes.is_empty() {
            took();
        }
    }
    Ok(true)
}

/// Closes so that the peer gets what was sent: a socket that is closed with bytes unread resets the connection, and
/// the peer may lose what it has not read either. One that asked for the end is not waited for, unless it sends on.
pub(crate) async fn linger(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    asked: bool,
) {
    if writer.shutdown().await.is_err() || (asked && is_quiet(reader).await) {
        return;
    }
    let mut rest = [0; 512];
    while reader.read(&mut rest).await.is_ok_and(|got| got > 0) {}
}

/// Whether nothing has arrived that was not read.
async fn is_quiet(reader: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut rest = [0; 1];
    let mut rest = ReadBuf::new(&mut rest);
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *reader).poll_read(cx, &mut rest).is_pending())).await
}
