//! Identities, ACLs and replies that multiply what was sent.

use std::io;
use std::net::SocketAddr;

use zoolet_proto::{Acl, Perms};
use zoolet_test_support::{RequestExt as _, auth, create, multi, who_am_i};

use crate::peer::{Peer, repeated};
use crate::trial::{Held, Trial};

/// The length of a user name of which a connection may have 31.
const SHORT: usize = 200;

/// So many entries for the identities of the caller, no two of them equal.
fn auth_entries(count: usize) -> Vec<Acl> {
    (1..=count).map(|perms| Acl::new(Perms(perms as i32), "auth", "")).collect()
}

/// A client that gave `count` identities with user names of `length` bytes.
fn identified(address: SocketAddr, count: usize, length: usize) -> io::Result<Peer> {
    let mut peer = Peer::connect(address)?;
    for at in 0..count {
        peer.call(&auth("digest", &format!("{at}{}:secret", "x".repeat(length))))?;
    }
    Ok(peer)
}

/// One create whose ACL is filled in with the identities for each of its entries.
fn create_one(address: SocketAddr, identities: usize, length: usize, entries: usize) -> io::Result<Held> {
    let mut peer = identified(address, identities, length)?;
    peer.call(&create("/owned").acl(auth_entries(entries)))?;
    Ok(Box::new(peer))
}

/// One multi of creates, each with an ACL of one entry.
fn create_many(address: SocketAddr, identities: usize, length: usize) -> io::Result<Held> {
    let mut peer = identified(address, identities, length)?;
    let entries = auth_entries(15_000).into_iter().zip(0..);
    peer.call(&multi(entries.map(|(entry, at)| create(&format!("/n{at}")).acl(vec![entry]))))?;
    Ok(Box::new(peer))
}

attack!(nobody_notices_an_acl_of_many_entries_for_an_identity_of_a_megabyte, |trial| {
    trial.run(|_| Ok(()), |address, ()| create_one(address, 1, 1_000_000, 60_000));
});

attack!(nobody_notices_an_acl_of_many_entries_for_an_identity_of_100_kb, |trial| {
    trial.run(|_| Ok(()), |address, ()| create_one(address, 1, 100_000, 20_000));
});

attack!(nobody_notices_an_acl_of_many_entries_for_many_identities, |trial| {
    trial.run(|_| Ok(()), |address, ()| create_one(address, 31, SHORT, 60_000));
});

attack!(nobody_notices_a_multi_of_many_acls_for_an_identity_of_100_kb, |trial| {
    trial.run(|_| Ok(()), |address, ()| create_many(address, 1, 100_000));
});

attack!(nobody_notices_a_multi_of_many_acls_for_many_identities, |trial| {
    trial.run(|_| Ok(()), |address, ()| create_many(address, 31, SHORT));
});

/// Clients that ask who they are, so often, and do not read. A server may close the connections of those who give long names.
fn ask_who_i_am(trial: Trial, clients: usize, length: usize, requests: usize) {
    let all =
        |address| Ok((0..clients).filter_map(|_| identified(address, 31, length).ok()).collect::<Vec<_>>());
    trial.run(all, move |_, mut peers| {
        let asked = repeated(&who_am_i(), requests);
        peers.iter_mut().try_for_each(|peer| peer.send(&asked))?;
        Ok(Box::new(peers))
    });
}

attack!(nobody_notices_who_asks_for_identities_of_31_mb_and_does_not_read, |trial| {
    ask_who_i_am(trial, 1, 1_000_000, 32);
});

attack!(nobody_notices_sixty_clients_that_ask_for_31_identities_and_do_not_read, |trial| {
    ask_who_i_am(trial, 60, SHORT, 4_096);
});
