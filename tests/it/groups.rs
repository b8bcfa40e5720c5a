//! Groups: who is a member, in the layouts of Curator and kazoo.

use zoolet::Group;
use zoolet::recipes::{GroupLayout, KeepNode, KeepState, Members};

use crate::keep_node::World;

const DIR: &str = "/workers";

async fn join(world: &World, group: &Group, id: &str) -> KeepNode {
    let joined = world.time(group.member(id)).await.unwrap().start().unwrap();
    world.time(joined.present()).await.unwrap();
    joined
}

async fn ids(world: &World, members: &Members) -> Vec<String> {
    world.time(members.cache().fresh()).await.unwrap();
    members.list().into_iter().map(|member| member.id).collect()
}

#[tokio::test]
async fn members_see_each_other_come_and_go_and_come_back_after_an_expiry() {
    let world = World::start().await;
    let (ours, theirs) = (Group::new(&world.sessions, DIR), Group::new(&world.others(), DIR));
    let members = world.time(ours.members()).await.unwrap();
    assert_eq!(ids(&world, &members).await, Vec::<String>::new());
    let one = world.time(ours.member("one")).await.unwrap().data("10.0.0.7").start().unwrap();
    world.time(one.present()).await.unwrap();
    let two = join(&world, &theirs, "two").await;
    assert_eq!(ids(&world, &members).await, ["one", "two"]);
    let member = members.list().remove(0);
    let node = world.zk.get("/workers/one").unwrap();
    assert_eq!((member.data.as_ref(), member.joined), (&b"10.0.0.7"[..], node.stat.czxid));
    assert_eq!(member.session, world.session().await);

    world.zk.expire_session(world.session().await).await.unwrap();
    // Complete when the znode is there in the next session.
    world.time(one.update("10.0.0.8")).await.unwrap();
    assert_eq!(ids(&world, &members).await, ["one", "two"]);
    assert!(members.list()[0].joined > node.stat.czxid);

    world.time(two.close()).await.unwrap();
    drop(one);
    world.settle().await;
    assert_eq!(ids(&world, &members).await, Vec::<String>::new());
}

#[tokio::test]
async fn two_programs_with_one_id_are_one_member() {
    let world = World::start().await;
    let (ours, theirs) = (Group::new(&world.sessions, DIR), Group::new(&world.others(), DIR));
    let first = join(&world, &ours, "one").await;
    let second = world.time(theirs.member("one")).await.unwrap().start().unwrap();
    world.settle().await;
    assert!(matches!(second.state(), KeepState::Foreign { .. }), "{:?}", second.state());
    let members = world.time(ours.members()).await.unwrap();
    assert_eq!(members.list().len(), 1);
    world.time(first.close()).await.unwrap();
    world.time(second.present()).await.unwrap();
}

#[tokio::test]
async fn parties_have_the_names_and_the_data_of_kazoo() {
    let world = World::start().await;
    for (layout, foreign) in [
        (GroupLayout::Party, ("00000000000000000000000000000000__party__", "kazoo-1")),
        (GroupLayout::ShallowParty, ("00000000000000000000000000000000-kazoo-1", "kazoo-1")),
    ] {
        let dir = format!("/party/{layout:?}");
        let group = Group::new(&world.sessions, &*dir).layout(layout);
        // Two with one id are two members, in one process as well.
        let (one, two) = (join(&world, &group, "a-b").await, join(&world, &group, "a-b").await);
        assert_ne!(one.path(), two.path());
        let other = world.zk.client().await;
        other.create(format!("{dir}/{}", foreign.0), foreign.1).ephemeral().await.unwrap();
        other.create(format!("{dir}/else"), "").await.unwrap();
        let members = world.time(group.members()).await.unwrap();
        let expected: &[&str] = match layout {
            // There everything counts, as kazoo has it.
            GroupLayout::ShallowParty => &["a-b", "a-b", "else", "kazoo-1"],
            _ => &["a-b", "a-b", "kazoo-1"],
        };
        assert_eq!(ids(&world, &members).await, expected);
        let node = world.zk.get(one.path()).unwrap();
        assert_eq!(node.text(), "a-b");
        let name = one.path().rsplit('/').next().unwrap();
        let (hex, rest) = name.split_at(32);
        assert!(hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        assert_eq!(rest, if layout == GroupLayout::Party { "__party__" } else { "-a-b" });
    }
}
