//! Four-letter words to members, and waiting for conditions.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// How long one answer may take: a stopped process accepts connections and never answers.
const ANSWER: Duration = Duration::from_secs(1);
/// How long until it is asked again.
const AGAIN: Duration = Duration::from_millis(20);

/// What a server answers to a word; `None` from one that does not.
pub async fn ask(server: SocketAddr, word: &str) -> Option<String> {
    let asking = async {
        let mut stream = TcpStream::connect(server).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    timeout(ANSWER, asking).await.ok()?.ok()
}

/// Asks until there is an answer.
///
/// # Panics
/// If that takes longer than `limit`.
pub async fn wait_for<T>(what: &str, limit: Duration, mut question: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = question().await {
            return answer;
        }
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        sleep(AGAIN).await;
    }
}
