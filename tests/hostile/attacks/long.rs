//! Requests that are short, and take long to answer.

use std::io::{self, Read as _};
use std::net::SocketAddr;

use zoolet_test_support::{
    RECURSIVE, add_watch, create, get_all_children_number, get_children, set_data, set_watches,
};

use crate::attacks::{children, znode};
use crate::peer::{Peer, connect_all, frames, is_timeout, repeated};

const MILLION: usize = 1_000_000;

/// So many sessions, and a tree of a million znodes.
fn million(address: SocketAddr, peers: usize) -> io::Result<Vec<Peer>> {
    let mut peers = connect_all(address, peers)?;
    children(&mut peers[0], "/many", MILLION)?;
    Ok(peers)
}

fn count_all(peers: &mut [Peer], requests: usize) -> io::Result<()> {
    let asked = repeated(&get_all_children_number("/many"), requests);
    peers.iter_mut().try_for_each(|peer| peer.send(&asked))?;
    peers.iter_mut().try_for_each(|peer| peer.replies(requests))
}

attack!(nobody_notices_who_counts_a_million_znodes_64_times, |trial| {
    trial.run(
        |address| million(address, 1),
        |_, mut peers| {
            count_all(&mut peers, 64)?;
            Ok(Box::new(peers))
        },
    );
});

attack!(nobody_notices_eight_clients_that_count_a_million_znodes_32_times, |trial| {
    trial.run(
        |address| million(address, 8),
        |_, mut peers| {
            count_all(&mut peers, 32)?;
            Ok(Box::new(peers))
        },
    );
});

attack!(nobody_notices_who_asks_for_a_million_children, |trial| {
    trial.run(
        |address| million(address, 1),
        |_, mut peers| {
            peers[0].call(&get_children("/many"))?;
            Ok(Box::new(peers))
        },
    );
});

attack!(nobody_notices_who_spoils_the_statistics_of_a_quota_of_a_million_znodes, |trial| {
    let with_quota = |address| {
        let mut peer = million(address, 1)?.remove(0);
        znode(&mut peer, "/zookeeper/quota/many", b"")?;
        znode(&mut peer, "/zookeeper/quota/many/zookeeper_limits", b"count=5000000,bytes=-1")?;
        znode(&mut peer, "/zookeeper/quota/many/zookeeper_stats", b"count=1000001,bytes=0")?;
        Ok(peer)
    };
    trial.run(with_quota, |_, mut peer| {
        let spoilt = set_data("/zookeeper/quota/many/zookeeper_stats", "garbage");
        peer.send(&frames([&spoilt, &set_data("/many/1", "2")]).repeat(32))?;
        peer.replies(64)?;
        Ok(Box::new(peer))
    });
});

/// Four-letter words of which nobody reads the answer.
fn ask_and_leave(address: SocketAddr, words: &[&str]) -> io::Result<()> {
    for word in words.iter().cycle().take(20) {
        Peer::tcp(address)?.send(word.as_bytes())?;
    }
    // One who reads it.
    let mut peer = Peer::tcp(address)?;
    peer.send(words[0].as_bytes())?;
    let mut answer = [0; 1 << 16];
    loop {
        match peer.stream.read(&mut answer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

attack!(nobody_notices_who_lists_1_400_000_watches_and_leaves, |trial| {
    let watching = |address| {
        let mut peers = connect_all(address, 35)?;
        for (at, peer) in peers.iter_mut().enumerate() {
            let paths: Vec<_> = (0..40_000).map(|path| format!("/{at}/{path}")).collect();
            let paths: Vec<_> = paths.iter().map(String::as_str).collect();
            peer.call(&set_watches(i64::MAX, &[], &paths, &[]))?;
        }
        Ok(peers)
    };
    trial.run(watching, |address, peers| {
        ask_and_leave(address, &["wchp", "wchc"])?;
        Ok(Box::new(peers))
    });
});

attack!(nobody_notices_who_writes_10_000_levels_deep_below_a_recursive_watch, |trial| {
    let deep = |address| {
        let mut peer = Peer::connect(address)?;
        let mut path = String::new();
        for _ in 0..100 {
            let mut creates = Vec::new();
            for _ in 0..100 {
                path.push_str("/d");
                creates.push(create(&path));
            }
            peer.send(&frames(&creates))?;
            peer.replies(creates.len())?;
        }
        peer.call(&create("/watched"))?;
        peer.call(&add_watch("/watched", RECURSIVE))?;
        Ok((peer, path))
    };
    trial.run(deep, |_, (mut peer, path)| {
        let request = set_data(&path, "");
        for _ in 0..10 {
            peer.send(&repeated(&request, 100))?;
            peer.replies(100)?;
        }
        Ok(Box::new(peer))
    });
});
