//! The `zoolet` binary.

use zoolet_server::Server;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bind = std::env::args().skip_while(|arg| arg != "--bind").nth(1);
    let server = Server::builder()
        .bind(bind.unwrap_or_else(|| "127.0.0.1:2181".to_owned()))
        .all_four_letter_words()
        .start()
        .await?;
    tracing::info!(addr = server.connect_string(), "serving");
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
