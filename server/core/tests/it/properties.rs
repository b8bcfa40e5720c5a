//! Properties that hold whatever several sessions do, in any order.

use std::net::IpAddr;

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use zoolet_proto::Incoming;
use zoolet_server_core::{ConnId, Core, CoreConfig, Effects, Input, Millis, StateMachine};

use crate::common::random::{Script, Step};
use crate::common::*;

fn encoded(effects: &Effects) -> Vec<u8> {
    let mut out = BytesMut::new();
    for output in &effects.outbound {
        output.clone().for_each(|conn, message| {
            out.extend_from_slice(&conn.0.to_be_bytes());
            encode(&message, &mut out);
        });
    }
    out.extend_from_slice(format!("{:?}", effects.txns).as_bytes());
    out.to_vec()
}

/// Runs a script on a new core with four connections, each with a session, and returns the output bytes.
fn outputs(steps: &[Step]) -> Vec<u8> {
    let mut config = CoreConfig::default();
    config.extended_types = true;
    let mut core = Core::new(config, Millis(START));
    let mut out = Vec::new();
    for conn in 0..4 {
        core.handle(Millis(START), ConnId(conn), Input::Open(IpAddr::from([127, 0, 0, 1]).into()));
        core.handle(Millis(START), ConnId(conn), Input::Connect(new_session()));
    }
    for (at, step) in steps.iter().enumerate() {
        let now = Millis(START + 777 * at as i64);
        let request = random::request(*step);
        let incoming =
            Incoming { xid: zoolet_proto::Xid(at as i32), op: request.op().code(), body: Ok(request) };
        core.handle(now, ConnId(u64::from(step[1] % 4)), Input::Request(incoming));
        core.handle_timeout(now);
        out.extend(encoded(&core.take_effects()));
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_its_indexes_and_the_order_of_replies_are_sound_after_every_step(
        steps in vec(any::<Step>(), 0..150)
    ) {
        let mut script = Script::new();
        for step in steps {
            script.step(step);
            script.assert_sound();
        }
    }

    #[test]
    fn replaying_the_transactions_gives_the_same_tree(steps in vec(any::<Step>(), 0..200)) {
        let mut script = Script::new();
        for step in steps {
            script.step(step);
        }
        script.assert_replays();
    }

    #[test]
    fn the_same_inputs_give_the_same_bytes(steps in vec(any::<Step>(), 0..100)) {
        prop_assert_eq!(outputs(&steps), outputs(&steps));
    }

    #[test]
    fn arbitrary_bytes_in_a_frame_are_refused_or_carried_out_but_never_a_panic(
        op in prop_oneof![-12..24i32, 100..108i32],
        body in vec(any::<u8>(), 0..60),
        then in any::<Step>(),
    ) {
        let mut world = World::new();
        let a = world.connect();
        let frame = [&7i32.to_be_bytes()[..], &op.to_be_bytes(), &body].concat();
        world.send_frame(a, &frame);
        let b = world.connect();
        world.send(b, random::request(then));
        prop_assert!(!world.received(b).is_empty());
    }
}
