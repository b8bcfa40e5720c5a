//! What is left of attacks.

use std::thread;
use std::time::Duration;

use zoolet_test_support::{close_session, get_data};

use crate::attacks::large;
use crate::peer::{frames, repeated};
use crate::trial::{Bounds, Trial};

attack!(memory_is_given_back_when_everybody_has_gone, |trial| {
    let bounds = Bounds { end: 64, ..trial.bounds };
    Trial { bounds, ..trial }.run(
        |address| large::crowd(address, 1_000),
        |_, mut peers| {
            let asked = repeated(&get_data("/large"), 100);
            peers.iter_mut().try_for_each(|peer| peer.send(&asked))?;
            thread::sleep(Duration::from_secs(2));
            let closed = frames([&close_session()]);
            // Those that the server closed have gone before.
            peers.iter_mut().for_each(|peer| _ = peer.send(&closed));
            Ok(Box::new(()))
        },
    );
});
