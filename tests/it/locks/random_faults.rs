//! What happens to contenders without their doing.

use std::sync::Arc;

use zoolet::SessionId;
use zoolet::testing::{Action, handshake, request};
use zoolet_test_support::Dice;

use crate::locks::recipe::DIR;
use crate::locks::stage::{Stage, millis};

pub struct RandomFaults {
    stage: Arc<Stage>,
    dice: Dice,
    endpoints: usize,
    paused: bool,
}

impl RandomFaults {
    pub fn new(stage: Arc<Stage>, dice: Dice, endpoints: usize) -> Self {
        Self { stage, dice, endpoints, paused: false }
    }

    /// Strikes once, or not. What cannot be done at the moment is not done.
    pub async fn inject(&mut self) {
        let zk = &self.stage.zk;
        let seats = self.stage.seats();
        let living: Vec<_> = seats.iter().filter(|seat| !seat.zk.state().is_final()).collect();
        if living.is_empty() {
            return;
        }
        let session = living[self.dice.below(living.len())].zk.session_id();
        match self.dice.below(100) {
            0..35 => self.place(session),
            35..43 => _ = zk.disconnect(session).await,
            43..46 => self.stage.move_session(session).await,
            46..51 => _ = zk.expire_session(session).await,
            51..58 => self.evict().await,
            58..60 => _ = self.stage.evict(DIR).await,
            60..64 => self.touch().await,
            64..66 => {
                _ = zk.restart().await;
                // It runs again.
                self.paused = false;
            }
            66..68 => self.stop().await,
            68..70 => zk.refuse_connections(),
            70..72 => zk.accept_connections(),
            72..76 => _ = zk.unfreeze_all().await,
            76..94 if self.endpoints > 1 => self.disturb_an_endpoint().await,
            _ => {}
        }
    }

    /// Ends all that was done and could last.
    pub async fn unfreeze(&mut self) {
        let zk = &self.stage.zk;
        zk.faults().clear();
        zk.accept_connections();
        if self.paused {
            _ = zk.resume().await;
        }
        _ = zk.unfreeze_all().await;
        for number in 0..zk.endpoints() {
            let endpoint = zk.endpoint(number).expect("an endpoint");
            let view = endpoint.view();
            if !view.alive {
                endpoint.revive().await.expect("a server");
            }
            if view.read_only {
                endpoint.set_read_only(false).await.expect("a server");
            }
            if view.lagging {
                endpoint.catch_up().await.expect("a server");
            }
        }
    }

    fn place(&mut self, session: SessionId) {
        let late = millis(1 + self.dice.below(2_000) as u64);
        let bytes = self.dice.below(60);
        let action = self.dice.of(&[
            Action::DropRequest,
            Action::DropRequest,
            Action::Reset,
            Action::LoseReply,
            Action::LoseReply,
            Action::LoseReply,
            Action::CutReply(bytes),
            Action::DelayRequest(late),
            Action::DelayReply(late),
            Action::Freeze,
        ]);
        let nth = 1 + self.dice.below(5) as u64;
        let matcher = if self.dice.chance(10) { handshake() } else { request() };
        self.stage.zk.faults().place(matcher.session(session).nth(nth), action).expect("a fault");
    }

    /// The znode of some contender.
    fn node(&mut self) -> Option<String> {
        let nodes: Vec<_> = self.stage.audit().line.keys().cloned().collect();
        (!nodes.is_empty()).then(|| nodes[self.dice.below(nodes.len())].clone())
    }

    async fn evict(&mut self) {
        if let Some(node) = self.node() {
            self.stage.evict(&node).await;
        }
    }

    async fn touch(&mut self) {
        if let Some(node) = self.node() {
            self.stage.touch(&node).await;
        }
    }

    async fn stop(&mut self) {
        let zk = &self.stage.zk;
        let done = if self.paused { zk.resume().await } else { zk.pause().await };
        done.expect("it was not so before");
        self.paused = !self.paused;
    }

    async fn disturb_an_endpoint(&mut self) {
        let number = self.dice.below(self.endpoints);
        let endpoint = self.stage.zk.endpoint(number).expect("an endpoint");
        let few = 1 + self.dice.below(4);
        let done = match self.dice.below(8) {
            0..3 => endpoint.lag().await,
            3 => endpoint.catch_up().await,
            4..6 => endpoint.apply_next(few).await.map(|_| ()),
            6 if endpoint.view().alive => endpoint.kill().await,
            6 => endpoint.revive().await,
            _ => endpoint.set_read_only(!endpoint.view().read_only).await,
        };
        done.expect("a server");
    }
}
