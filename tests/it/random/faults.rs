//! What happens to clients without their doing.

use std::time::Duration;

use zoolet::testing::Fixture;
use zoolet_test_support::Dice;

/// Causes faults at random until it is aborted, on the server that runs.
pub async fn run(running: impl Fn() -> Option<Fixture>, mut dice: Dice) {
    loop {
        tokio::time::sleep(Duration::from_millis(dice.below(1_500) as u64)).await;
        let Some(fixture) = running() else { continue };
        let sessions = fixture.sessions();
        let victim = (!sessions.is_empty()).then(|| sessions[dice.below(sessions.len())].id);
        match (dice.below(10), victim) {
            (0, Some(id)) => _ = fixture.expire_session(id).await,
            (1..=3, Some(id)) => _ = fixture.disconnect(id).await,
            (4, Some(id)) => _ = fixture.move_session(id).await,
            (5, _) => _ = fixture.restart().await,
            (6, _) => {
                fixture.refuse_connections();
                tokio::time::sleep(Duration::from_millis(dice.below(8_000) as u64)).await;
                fixture.accept_connections();
            }
            (7, _) => _ = fixture.set("/a/x", "direct").await,
            (8, _) => _ = fixture.delete(dice.of(&["/b", "/c"])).await,
            _ => {}
        }
    }
}
