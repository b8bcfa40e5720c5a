//! Service discovery: what is registered, what others see of it, and which instance is chosen.

use std::collections::BTreeMap;

use zoolet::recipes::CacheChange;
use zoolet::recipes::discovery::{
    CuratorFormat, DiscoveryError, Instance, InstanceFormat as _, Registration, ServerSetFormat, Services,
    Strategy,
};
use zoolet::{Acl, Perms};
use zoolet_test_support::secs;

use crate::keep_node::World;

const BASE: &str = "/services";

fn web(id: &str, port: u16) -> Instance {
    Instance::new("web", id, "10.0.0.7").port(port)
}

async fn register(world: &World, instance: Instance) -> Registration {
    let builder = Registration::builder(&world.sessions, BASE).format(CuratorFormat::with_enabled());
    let registration = builder.start(instance).unwrap();
    world.time(registration.present()).await.unwrap();
    registration
}

/// As another program sees them.
async fn lookup(world: &World) -> Services {
    world.time(Services::builder(&world.others(), BASE).open()).await.unwrap()
}

async fn ids(world: &World, services: &Services) -> Vec<String> {
    world.time(services.cache().fresh()).await.unwrap();
    services.service("web").iter().map(|instance| instance.id.clone()).collect()
}

#[tokio::test]
async fn an_instance_is_written_as_by_curator_and_found_by_others_until_it_is_closed() {
    let world = World::start().await;
    let services = lookup(&world).await;
    let registration = register(&world, web("b", 80)).await;
    let _other = register(&world, web("a", 81)).await;
    assert_eq!(registration.path(), "/services/web/b");
    let node = world.zk.get(registration.path()).unwrap();
    let expected = registration.instance();
    assert_eq!(expected.registration_time_utc, world.zk.clock().wall_millis());
    assert_eq!(node.data.unwrap(), CuratorFormat::with_enabled().encode(&expected).unwrap());
    assert_eq!(ids(&world, &services).await, ["a", "b"], "in a stable order");
    assert_eq!(services.names(), ["web"]);
    assert_eq!(services.service("web").iter().nth(1).map(|found| &**found), Some(&expected));
    assert!(services.service("mail").is_empty());
    world.time(registration.close()).await.unwrap();
    assert_eq!(ids(&world, &services).await, ["a"]);
}

#[tokio::test]
async fn others_see_no_flap_when_a_connection_is_lost_and_an_update_as_a_change() {
    let world = World::start().await;
    let services = lookup(&world).await;
    let registration = register(&world, web("a", 80)).await;
    world.time(services.cache().fresh()).await.unwrap();
    let mut changes = services.cache().changes_since(&services.cache().snapshot());
    world.zk.disconnect(world.session().await).await.unwrap();
    world.time(registration.update(web("a", 81))).await.unwrap();
    world.zk.disconnect(world.session().await).await.unwrap();
    world.time(registration.set_enabled(false)).await.unwrap();
    world.time(services.cache().fresh()).await.unwrap();
    drop(registration);
    let mut seen = Vec::new();
    loop {
        match world.time(changes.next()).await.unwrap() {
            CacheChange::Changed { new, .. } => {
                let found = new.value().unwrap().as_ref().unwrap();
                seen.push((found.port, found.enabled));
            }
            CacheChange::Deleted(_) => break,
            change => panic!("{change:?}"),
        }
    }
    assert_eq!(seen, [(Some(81), true), (Some(81), false)]);
}

#[tokio::test]
async fn an_instance_is_registered_again_after_an_expiry() {
    let world = World::start().await;
    let services = lookup(&world).await;
    let registration = register(&world, web("a", 80)).await;
    world.zk.expire_session(world.session().await).await.unwrap();
    world.time(registration.update(web("a", 81))).await.unwrap();
    assert_eq!(ids(&world, &services).await, ["a"]);
    assert_eq!(services.service("web").iter().next().unwrap().port, Some(81));
}

#[tokio::test]
async fn a_foreign_instance_that_cannot_be_decoded_harms_nobody() {
    let world = World::start().await;
    let _ours = register(&world, web("ours", 80)).await;
    let other = world.zk.client().await;
    // Before the lookup, as servers report nothing of a znode that may not be read.
    let secret = vec![Acl::new(Perms::WRITE, "world", "anyone")];
    other.create("/services/web/secret", "").acl(secret).await.unwrap();
    let services = lookup(&world).await;
    let selector = services.selector("web", Strategy::RoundRobin).build();
    let unknown_class = r#"{"name":"web","id":"java","address":"h","port":1,"sslPort":null,"payload":{"@class":"not.Here","x":[1]},"registrationTimeUTC":1,"serviceType":"DYNAMIC","uriSpec":null,"new":{}}"#;
    for (id, data) in [("broken", "{\"name\":"), ("empty", ""), ("java", unknown_class), ("list", "[]")] {
        other.create(format!("/services/web/{id}"), data).await.unwrap();
    }
    assert_eq!(ids(&world, &services).await, ["java", "ours"]);
    let found = services.service("web");
    let undecodable: Vec<_> = found.undecodable().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(undecodable, ["broken", "empty", "list"]);
    let unreadable: Vec<_> = found.unreadable().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(unreadable, ["secret"]);
    let java = found.iter().next().unwrap();
    assert_eq!(java.payload_json(), Some(r#"{"@class":"not.Here","x":[1]}"#));
    let chosen: Vec<_> = (0..3).map(|_| selector.select().unwrap().id.clone()).collect();
    assert_eq!(chosen, ["java", "ours", "java"]);
    // One that is repaired is there.
    other.set_data("/services/web/empty", unknown_class.replace("\"java\"", "\"empty\"")).await.unwrap();
    assert_eq!(ids(&world, &services).await, ["empty", "java", "ours"]);
}

#[tokio::test]
async fn what_cannot_be_registered_is_refused_at_once() {
    let world = World::start().await;
    let start = |instance| Registration::builder(&world.sessions, BASE).start(instance);
    for id in ["", "a/b"] {
        assert!(matches!(start(web(id, 80)), Err(DiscoveryError::InvalidName { what }) if what == id));
    }
    assert!(matches!(start(web(".", 80)), Err(DiscoveryError::Keep(_))));
    let registration = start(web("a", 80)).unwrap();
    let disabled = world.time(registration.set_enabled(false)).await;
    assert!(matches!(disabled, Err(DiscoveryError::Encode(_))), "{disabled:?}");
    let renamed = world.time(registration.update(web("b", 80))).await;
    assert!(matches!(renamed, Err(DiscoveryError::OtherNode { path }) if path == "/services/web/a"));
    assert_eq!(registration.instance().id, "a");
}

#[tokio::test]
async fn a_member_of_a_server_set_is_found_beside_others_and_changed_under_another_name() {
    let world = World::start().await;
    let other = world.zk.client().await;
    let json = r#"{"serviceEndpoint":{"host":"h","port":9},"additionalEndpoints":{},"status":"ALIVE"}"#;
    other.create("/services/web/member_", json).sequential().parents().await.unwrap();
    other.create("/services/web/vector_", r#"{"vector":[]}"#).sequential().await.unwrap();
    let start =
        |port| Registration::builder(&world.sessions, BASE).format(ServerSetFormat).start(web("a", port));
    let registration = start(80).unwrap();
    world.time(registration.present()).await.unwrap();
    let services = Services::builder(&world.sessions, BASE).format(ServerSetFormat).open();
    let services = world.time(services).await.unwrap();
    let ports = || services.service("web").iter().map(|found| found.port.unwrap()).collect::<Vec<_>>();
    assert_eq!(ports(), [9, 80]);
    let update = world.time(registration.update(web("a", 81))).await;
    assert!(matches!(update, Err(DiscoveryError::OtherNode { .. })), "{update:?}");
    let next = start(81).unwrap();
    world.time(next.present()).await.unwrap();
    world.time(registration.close()).await.unwrap();
    world.time(services.cache().fresh()).await.unwrap();
    assert_eq!(ports(), [9, 81]);
}

#[tokio::test]
async fn an_instance_whose_calls_fail_is_left_out_and_tried_again_by_the_clock() {
    let world = World::start().await;
    let services = lookup(&world).await;
    let (_a, b) = (register(&world, web("a", 80)).await, register(&world, web("b", 81)).await);
    world.time(services.cache().fresh()).await.unwrap();
    let selector = services.selector("web", Strategy::RoundRobin).retry_after(secs(10)).build();
    let choose = |times| (0..times).map(|_| selector.select().unwrap().id.clone()).collect::<Vec<_>>();
    for _ in 0..4 {
        let chosen = selector.select().unwrap();
        if chosen.id == "b" {
            chosen.note_error();
        }
    }
    assert_eq!(choose(3), ["a", "a", "a"]);
    world.zk.advance(secs(10)).await.unwrap();
    let trial = selector.select().unwrap();
    assert_eq!(trial.id, "b");
    assert_eq!(choose(2), ["a", "a"], "one call tries it");
    trial.note_error();
    world.zk.advance(secs(9)).await.unwrap();
    assert_eq!(choose(2), ["a", "a"]);
    // Registered anew, it has no errors.
    world.time(b.close()).await.unwrap();
    let _b = register(&world, web("b", 81)).await;
    world.time(services.cache().fresh()).await.unwrap();
    assert_eq!(choose(2), ["b", "a"]);
}

#[tokio::test]
async fn calls_go_to_those_that_are_enabled_with_less_in_flight_for_their_weight() {
    let world = World::start().await;
    let services = lookup(&world).await;
    let weighted = |id, weight: u32| web(id, 80).payload(&weight).unwrap();
    let mut registrations = Vec::new();
    for instance in [weighted("a", 1), weighted("b", 3), weighted("c", 100)] {
        registrations.push(register(&world, instance).await);
    }
    world.time(registrations[2].set_enabled(false)).await.unwrap();
    world.time(services.cache().fresh()).await.unwrap();
    let weight = |instance: &Instance| instance.payload_as::<f64>().ok().flatten().unwrap_or(1.0);
    let selector = services.selector("web", Strategy::LeastLoaded).weight(weight).build();
    let in_flight: Vec<_> = (0..40).map(|_| selector.clone().select().unwrap()).collect();
    let mut counts = BTreeMap::new();
    in_flight.iter().for_each(|chosen| *counts.entry(chosen.id.as_str()).or_insert(0) += 1);
    assert_eq!(counts, [("a", 10), ("b", 30)].into());
    drop(registrations);
    world.settle().await;
    world.time(services.cache().fresh()).await.unwrap();
    assert!(selector.select().is_none());
}

#[tokio::test]
async fn services_that_are_not_asked_for_are_not_read() {
    let world = World::start().await;
    let _web = register(&world, web("a", 80)).await;
    let _mail = register(&world, Instance::new("mail", "a", "h")).await;
    let services = Services::builder(&world.sessions, BASE).only(["web"]).open();
    let services = world.time(services).await.unwrap();
    assert_eq!(services.names(), ["web"]);
    assert_eq!((services.service("web").len(), services.service("mail").len()), (1, 0));
}
