//! The zxids that replies name while transactions are on their way to the log.

use proptest::collection::vec;
use proptest::prelude::*;
use zoolet_proto::{ErrorCode, Perms, Reply, Request, SessionId, Zxid};
use zoolet_server_core::{ConnId, Core, Millis, Tree, Txn};

use crate::common::random::{self, Step, allow_everything};
use crate::common::*;

/// A world with a log of which nothing is durable, unless a test says so.
fn logged() -> World {
    World::with(|config| config.logged = true)
}

impl World {
    fn durable(&mut self, zxid: i64) {
        self.control(|core| core.set_durable(Zxid(zxid)));
    }

    fn all_durable(&mut self) -> i64 {
        let zxid = self.zxid();
        self.durable(zxid);
        zxid
    }

    fn named(&mut self, conn: ConnId, request: Request) -> i64 {
        self.ask(conn, request).zxid
    }
}

#[test]
fn a_read_names_the_durable_zxid_or_the_last_change_of_what_it_shows() {
    let mut world = logged();
    let a = world.connect();
    // Each read has a connection of its own: zxids on a connection do not go back.
    let mut readers = [(); 20].map(|()| world.connect()).into_iter();
    world.znodes(a, &["/a", "/b", "/b/c"]);
    let durable = world.all_durable();
    let set = world.named(a, set_data("/a", "x"));
    let created = world.named(a, create("/b/d"));
    world.refusal(a, create("/b/d"));
    let mut named = |request: Request| world.named(readers.next().expect("a reader"), request);
    assert_eq!(named(get_data("/a")), set);
    assert_eq!(named(get_data("/b/c")), durable);
    assert_eq!(named(get_children("/b")), created, "a child came");
    assert_eq!(named(get_data("/b")), created, "its Stat shows the number of children");
    assert_eq!(named(exists("/")), durable);
    assert_eq!(named(exists("")), durable);
    assert_eq!(named(exists("/none")), durable);
    assert_eq!(named(get_acl("/b/d")), created);
    assert_eq!(named(multi_read([get_data("/b/c"), get_data("/a")])), set);
    assert_eq!(named(multi_read([get_data("/b/c")])), durable);
    assert_eq!(named(Request::WhoAmI), durable);
    let last = created + 1;
    assert_eq!(named(get_all_children_number("/b/c")), last);
    assert_eq!(named(get_ephemerals(None)), last);
    assert_eq!(named(sync("/b/c")), last);
    assert_eq!(named(get_data("/zookeeper/quota/b/c")), last);
    assert_eq!(named(set_watches(0, &[], &[], &[])), last);
    assert_eq!(named(add_watch("/b/c", 0)), durable);
    assert_eq!(named(add_watch("/b/c", 1)), last, "a change below may be undurable");
}

#[test]
fn what_becomes_durable_is_not_waited_for() {
    let mut world = logged();
    let (a, b, c) = (world.connect(), world.connect(), world.connect());
    world.znodes(a, &["/a"]);
    let one = world.named(a, set_data("/a", "1"));
    let two = world.named(a, set_data("/a", "2"));
    let other = world.named(a, create("/b"));
    world.durable(one);
    assert_eq!(world.named(b, get_data("/a")), two);
    world.durable(two);
    assert_eq!(world.named(b, get_data("/a")), two);
    world.durable(other);
    assert_eq!(world.named(b, get_data("/a")), other);
    world.durable(two);
    assert_eq!(world.named(c, get_data("/a")), other, "what is durable stays so");
}

#[test]
fn refusals_name_the_last_change_of_their_path() {
    let mut world = logged();
    let (a, b) = (world.connect(), world.connect());
    world.znodes(a, &["/gone", "/mine"]);
    let durable = world.all_durable();
    let deleted = world.named(a, delete("/gone"));
    let closed = world.named(a, set_acl("/mine", anyone(Perms::ADMIN)));
    assert_eq!(world.named(b, get_data("/none")), durable);
    let answer = world.ask(b, get_data("/gone"));
    assert_eq!((answer.error, answer.zxid), (Some(ErrorCode::NoNode), deleted));
    let answer = world.ask(b, get_data("/mine"));
    assert_eq!((answer.error, answer.zxid), (Some(ErrorCode::NoAuth), closed));
}

#[test]
fn zxids_on_a_connection_do_not_go_back() {
    let mut world = logged();
    let (a, b) = (world.connect(), world.connect());
    world.znodes(a, &["/a", "/b", "/c"]);
    world.all_durable();
    world.ok(b, get_data("/b").watch());
    world.ok(b, get_data("/c").watch());
    let own = world.named(a, set_data("/a", "x"));
    assert_eq!(world.named(a, get_data("/b")), own, "after its own write");
    let multi = world.named(a, multi([set_data("/b", "x"), set_data("/c", "x")]));
    assert_eq!(world.events(b), ["data /b", "data /c"]);
    assert_eq!(world.named(b, Request::WhoAmI), multi, "after an event");
}

#[test]
fn a_session_end_and_a_multi_change_all_their_paths() {
    let mut world = logged();
    let (a, b, c, d) = (world.connect(), world.connect(), world.connect(), world.connect());
    world.znodes(b, &["/p", "/q"]);
    world.ok(a, ephemeral("/p/e"));
    world.ok(a, ephemeral("/q/e"));
    world.all_durable();
    let session = world.session(a);
    world.expire(session);
    let ended = world.zxid();
    assert_eq!(world.named(b, get_children("/p")), ended);
    assert_eq!(world.named(c, exists("/p/e")), ended);
    assert_eq!(world.named(d, exists("/q/e")), ended);
    let multi = world.named(b, multi([create("/q/x"), delete("/q/x")]));
    assert_eq!(world.named(c, get_children("/q")), multi);
}

/// The Stat of the parent would show the same zxid, so nobody asks for it.
#[test]
fn a_read_of_what_a_multi_has_deleted_names_the_multi() {
    let mut world = logged();
    let (a, readers) = (world.connect(), [(); 4].map(|()| world.connect()));
    world.znodes(a, &["/gone", "/again", "/kept"]);
    let durable = world.all_durable();
    let parts = [delete("/gone"), delete("/again"), create("/again"), delete("/again")];
    let multi = world.named(a, multi(parts));
    let mut ask = |reader: usize, request| {
        let answer = world.ask(readers[reader], request);
        (answer.error, answer.zxid)
    };
    assert_eq!(ask(0, exists("/gone")), (Some(ErrorCode::NoNode), multi));
    assert_eq!(ask(1, get_children("/again")), (Some(ErrorCode::NoNode), multi));
    assert_eq!(ask(2, exists("/kept")), (None, durable));
    assert_eq!(ask(3, exists("/none")), (Some(ErrorCode::NoNode), durable));
}

#[test]
fn a_path_that_is_deleted_twice_is_waited_for_until_the_second_time_is_durable() {
    let mut world = logged();
    let (a, b, c) = (world.connect(), world.connect(), world.connect());
    world.znodes(a, &["/a"]);
    world.all_durable();
    let first = world.named(a, delete("/a"));
    world.ok(a, create("/a"));
    let second = world.named(a, delete("/a"));
    let last = world.named(a, create("/other"));
    world.durable(first);
    assert_eq!(world.named(b, exists("/a")), second);
    world.durable(second);
    assert_eq!(world.named(c, exists("/a")), second);
    world.durable(last);
    assert_eq!(world.named(c, exists("/a")), last, "forgotten by now");
}

/// An event for several connections is queued once for all of them.
#[test]
fn zxids_do_not_go_back_after_an_event_that_several_connections_get() {
    let mut world = logged();
    let (a, watchers) = (world.connect(), [(); 3].map(|()| world.connect()));
    world.znodes(a, &["/a", "/b"]);
    world.all_durable();
    for watcher in watchers {
        world.ok(watcher, get_data("/a").watch());
        world.ok(watcher, get_data("/b").watch());
    }
    let set = world.named(a, set_data("/a", "x"));
    for watcher in watchers {
        assert_eq!(world.named(watcher, Request::WhoAmI), set);
    }
    let multi = world.named(a, multi([create("/c"), set_data("/b", "x")]));
    for watcher in watchers {
        assert_eq!(world.named(watcher, Request::WhoAmI), multi);
    }
}

#[test]
fn without_a_log_each_reply_names_the_last_zxid() {
    let mut world = World::new();
    let (a, b) = (world.connect(), world.connect());
    world.durable(1);
    let created = world.named(a, create("/a"));
    assert_eq!(world.named(b, exists("/none")), created);
    assert_eq!(world.named(b, Request::WhoAmI), created);
    assert!(world.txns.iter().all(|txn| txn.digest.is_none()));
}

/// The reply to a request if the transactions had ended earlier.
fn reply_at(txns: &[Txn], session: SessionId, is_bob: bool, request: Request) -> (Option<ErrorCode>, Reply) {
    let mut tree = Tree::default();
    txns.iter().for_each(|txn| tree.apply(txn, &mut |_, _| {}));
    let owners = tree.owners();
    let sessions = owners.into_iter().chain([session]).map(|id| (id, TIMEOUT)).collect();
    let core = Core::restore(config(allow_everything), tree, sessions, None, Millis(START));
    let mut world = World::around(core);
    let conn = world.resume(session);
    if is_bob {
        world.ok(conn, auth("digest", "bob:pw"));
    }
    let Answer { error, reply, .. } = world.ask(conn, request);
    (error, reply)
}

fn is_checked(request: &Request) -> bool {
    matches!(
        request,
        Request::GetData(_)
            | Request::Exists(_)
            | Request::GetChildren(_)
            | Request::GetChildren2(_)
            | Request::GetAcl(_)
            | Request::GetAllChildrenNumber(_)
            | Request::GetEphemerals(_)
            | Request::MultiRead(_)
    )
}

/// Sends a request on a connection, with the last zxid that it was told, and checks the zxid of the answer.
fn check(
    world: &mut World,
    (conn, before): &mut (ConnId, i64),
    durable: i64,
    is_bob: bool,
    request: Request,
) -> Result<(), TestCaseError> {
    let answer = world.ask(*conn, request.clone());
    for event in world.received(*conn) {
        if let Received::Event(Event { zxid, .. }) = event {
            *before = (*before).max(zxid);
        }
    }
    prop_assert!(answer.zxid >= *before, "{:?} names {} after {}", request, answer.zxid, before);
    *before = answer.zxid;
    prop_assert!((durable..=world.zxid()).contains(&answer.zxid), "{:?} names {}", request, answer.zxid);
    if is_checked(&request) {
        let session = world.session(*conn);
        let then = &world.txns[..usize::try_from(answer.zxid).expect("a zxid")];
        let expected = reply_at(then, session, is_bob, request.clone());
        if answer.error != Some(ErrorCode::ThrottledOp) {
            prop_assert_eq!((answer.error, answer.reply), expected, "{:?} at {}", request, answer.zxid);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn a_read_shows_the_state_of_the_zxid_that_it_names(
        steps in vec((any::<Step>(), any::<Option<u8>>()), 0..120),
    ) {
        let mut world = World::with(|config| {
            allow_everything(config);
            config.logged = true;
        });
        let mut conns = [0, 1, 2].map(|_| (world.connect(), 0));
        world.ok(conns[0].0, auth("digest", "bob:pw"));
        let mut durable = 0;
        for (step, sync) in steps {
            if let Some(part) = sync {
                durable += (world.zxid() - durable) * i64::from(part) / 255;
                world.durable(durable);
            }
            let who = usize::from(step[1]) % 3;
            match step[0] % 16 {
                // Containers and TTL znodes are deleted, and no session ends.
                3 => for _ in 0..step[2] % 24 {
                    world.advance(i64::from(TIMEOUT) / 2);
                    conns.iter().for_each(|(conn, _)| drop(world.ok(*conn, Request::WhoAmI)));
                },
                // A session ends, and its ephemerals with it: another one looks for them.
                4 => {
                    check(&mut world, &mut conns[who], durable, who == 0, Request::CloseSession)?;
                    conns[who] = (world.connect(), 0);
                    if who == 0 {
                        world.ok(conns[0].0, auth("digest", "bob:pw"));
                    }
                    let other = (who + 1) % 3;
                    for path in ["/a", "/b", "/a/a", "/a/b", "/c", "/"] {
                        check(&mut world, &mut conns[other], durable, other == 0, exists(path))?;
                    }
                }
                _ => {
                    let request = random::request(step);
                    if !matches!(request, Request::Auth(_) | Request::CloseSession) {
                        check(&mut world, &mut conns[who], durable, who == 0, request)?;
                    }
                }
            }
        }
    }
}
