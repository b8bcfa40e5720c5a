//! The end of a connection.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Closes so that the peer gets what was sent: a socket that is closed with bytes unread resets the connection, and
/// the peer may lose what it has not read yet. A peer that asked for the close is not waited for, unless it sends more.
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
