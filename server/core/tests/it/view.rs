//! Reads without a connection see what a client with the same identities sees.

use std::net::IpAddr;

use zoolet_proto::{Acl, ErrorCode, Perms, Reply};
use zoolet_server_core::{AuthScheme, Viewer};

use crate::common::*;

const BOB: &str = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

#[test]
fn a_viewer_sees_what_a_client_with_its_identities_sees() {
    let acls = [
        anyone(Perms::ALL),
        anyone(Perms::READ),
        anyone(Perms::WRITE),
        anyone(Perms::ADMIN),
        vec![Acl::new(Perms::ALL, "digest", BOB)],
        vec![Acl::new(Perms::READ, "digest", BOB)],
        vec![Acl::new(Perms::READ, "ip", "10.0.0.0/8")],
        vec![Acl::new(Perms::READ, "ip", "127.0.0.1")],
        vec![Acl::new(Perms::READ, "world", "anyone"), Acl::new(Perms::ADMIN, "digest", BOB)],
    ];
    let mut refused = 0;
    for credentials in [None, Some("bob:bob"), Some("bob:wrong"), Some("super:secret")] {
        for skip_acl in [false, true] {
            let mut world = World::with(|config| {
                config.skip_acl = skip_acl;
                config.super_digest = zoolet_proto::digest_id(b"super:secret").into();
            });
            let (admin, conn) = (world.connect(), world.connect());
            let mut viewer = Viewer::new(PEER);
            if let Some(credentials) = credentials {
                world.ok(conn, auth("digest", credentials));
                assert!(world.core.authenticate_viewer(&mut viewer, "digest", credentials.as_bytes()));
            }
            for (at, acl) in acls.iter().enumerate() {
                let path = format!("/z{at}");
                world.ok(admin, create(&path));
                world.ok(admin, set_acl(&path, acl.clone()));
                let data = world.ask(conn, get_data(&path));
                let listed = world.ask(conn, get_acl(&path));
                refused += usize::from(data.error.is_some());
                let seen = world.core.view(&viewer, &path).map(|node| node.stat());
                assert_eq!(seen.as_ref().err(), data.error.as_ref(), "{credentials:?} {path}");
                match (world.core.view_acl(&viewer, &path), listed.reply) {
                    (Ok(seen), Reply::Acl(acl, _)) => assert_eq!(seen, acl, "{credentials:?} {path}"),
                    (Err(code), _) => assert_eq!(Some(code), listed.error, "{credentials:?} {path}"),
                    (Ok(seen), other) => panic!("{credentials:?} {path}: {seen:?}, and {other:?}"),
                }
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_viewer_finds_no_znode_that_is_missing_and_proves_nothing_by_an_unknown_scheme() {
    let world = World::new();
    let mut viewer = Viewer::new(PEER);
    assert_eq!(world.core.view(&viewer, "/none").err(), Some(ErrorCode::NoNode));
    assert_eq!(world.core.view_acl(&viewer, "/none"), Err(ErrorCode::NoNode));
    assert!(!world.core.authenticate_viewer(&mut viewer, "unknown", b"x"));
}

#[test]
fn where_an_authentication_is_required_a_viewer_needs_it_too() {
    let world = World::with(|config| config.auth.required = vec![AuthScheme::Digest]);
    let mut viewer = Viewer::new(PEER);
    assert!(!world.core.admits_viewer(&viewer));
    assert!(world.core.authenticate_viewer(&mut viewer, "digest", b"bob:bob"));
    assert!(world.core.admits_viewer(&viewer));
    assert!(World::new().core.admits_viewer(&Viewer::new(PEER)), "nothing is required");
}

#[test]
fn children_are_listed_from_any_name_on() {
    let mut world = World::new();
    let a = world.connect();
    world.znodes(a, &["/d", "/d/a", "/d/b", "/d/c"]);
    let dir = world.core.tree().get("/d").unwrap();
    let after = |after| dir.children_after(after).map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(after(None), ["/d/a", "/d/b", "/d/c"]);
    assert_eq!(after(Some("/d/a")), ["/d/b", "/d/c"]);
    assert_eq!(after(Some("/d/bb")), ["/d/c"], "one that is gone");
    assert!(after(Some("/d/c")).is_empty());
}
