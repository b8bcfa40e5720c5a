//! A script of operations that move metrics, each by a number that is known.

use zoolet_proto::Perms;

use crate::{
    Hello, RequestExt, Wire, add_watch, anyone, create, create2, delete, ephemeral, exists, get_acl,
    get_all_children_number, get_children, get_children2, get_data, get_ephemerals, multi, multi_read, ping,
    sequential, set_acl, set_data, sync, who_am_i,
};

/// Executes the script on connections that `open` opens with a handshake. All sessions are closed at the end.
pub async fn counted_operations(open: impl AsyncFn(Hello) -> Wire) {
    let mut writer = open(Hello::new()).await;
    let mut watcher = open(Hello::new()).await;
    writes_and_watches(&mut writer, &mut watcher).await;
    reads(&mut watcher).await;
    quotas(&mut writer).await;
    watcher.close_session().await;
    // The session goes on with another connection.
    let again = Hello::again(&writer.welcome);
    drop(writer);
    open(again).await.close_session().await;
}

async fn writes_and_watches(writer: &mut Wire, watcher: &mut Wire) {
    writer.ask(create("/app").data([b'a'; 100])).await;
    writer.ask(create("/app/one").data("1")).await;
    watcher.ask(get_data("/app").watch()).await;
    writer.ask(get_data("/app").watch()).await;
    watcher.ask(exists("/app/one").watch()).await;
    watcher.ask(exists("/missing").watch()).await;
    watcher.ask(get_children("/app").watch()).await;
    // Changed, for two connections.
    writer.send(set_data("/app", [b'b'; 200])).await;
    for wire in [&mut *writer, &mut *watcher] {
        wire.next().await;
    }
    writer.next().await;
    // Created, for a watcher of the children of its parent.
    writer.ask(ephemeral("/app/two")).await;
    watcher.next().await;
    // Deleted.
    writer.ask(delete("/app/one")).await;
    watcher.next().await;
    // Created.
    writer.ask(create2("/missing")).await;
    watcher.next().await;
    // A persistent watch, which stays.
    watcher.ask(add_watch("/missing", 0)).await;
    writer.ask(set_data("/missing", "x")).await;
    watcher.next().await;
    writer.ask(sequential("/app/seq-")).await;
    writer.ask(set_acl("/app/two", anyone(Perms::ALL))).await;
    writer.ask(set_data("/app", "no").version(77)).await;
    writer.ask(delete("/nowhere")).await;
    writer.ask(multi([create("/app/m1").data("12345"), set_data("/app", [b'c'; 50])])).await;
    writer.ask(multi([create("/app/m2"), delete("/nowhere")])).await;
}

async fn reads(wire: &mut Wire) {
    wire.ask(get_data("/app")).await;
    wire.ask(get_data("/nowhere")).await;
    wire.ask(exists("/app/two")).await;
    wire.ask(get_children("/app")).await;
    wire.ask(get_children2("/app")).await;
    wire.ask(get_children("/")).await;
    wire.ask(get_acl("/app")).await;
    wire.ask(get_all_children_number("/app")).await;
    wire.ask(get_ephemerals(Some("/app"))).await;
    wire.ask(multi_read([get_data("/app"), get_children("/app"), get_data("/nowhere")])).await;
    wire.ask(sync("/app")).await;
    wire.ask(who_am_i()).await;
    wire.send(ping()).await;
    wire.next().await;
}

/// Soft limits on one subtree and a hard one on another.
async fn quotas(wire: &mut Wire) {
    for (top, limits) in [
        ("app", "count=100,bytes=100000"),
        ("missing", "count=-1,bytes=-1=;byteHardLimit=3;countHardLimit=-1"),
    ] {
        wire.ask(create(&format!("/zookeeper/quota/{top}"))).await;
        wire.ask(create(&format!("/zookeeper/quota/{top}/zookeeper_limits")).data(limits)).await;
        wire.ask(create(&format!("/zookeeper/quota/{top}/zookeeper_stats")).data("count=0,bytes=0")).await;
    }
    // Refused if quotas are enforced.
    wire.ask(set_data("/missing", "more")).await;
}
