//! Deleting a tree, at a server that is only a set of paths.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolet_client::{Client, Error, ErrorCode};
use zoolet_proto::{Reply, Request, Stat, path};

use crate::common::{Listener, Peer, listener};

/// What others do in the tree, after each request.
type Others = fn(&mut BTreeSet<String>, &Request);

#[derive(Default)]
struct Tree {
    paths: BTreeSet<String>,
    /// The deletes in order, refused ones too.
    deletes: Vec<String>,
    /// This znode may not be deleted.
    denied: Option<&'static str>,
    /// Close the connection instead of answering the n-th request from now.
    lose: Option<usize>,
}

impl Tree {
    fn answer(&mut self, request: &Request) -> Result<Reply, ErrorCode> {
        let children = |tree: &Self, parent: &str| -> Vec<String> {
            let below = tree.paths.iter().filter(|path| *path != "/" && path::parent(path) == parent);
            below.map(|path| path::name(path).to_owned()).collect()
        };
        match request {
            Request::GetChildren2(get) if self.paths.contains(&get.path) => {
                let names = children(self, &get.path);
                Ok(Reply::Children2(names.iter().map(String::as_str).collect(), Stat::default()))
            }
            Request::Delete(delete) => {
                self.deletes.push(delete.path.clone());
                match () {
                    () if self.denied == Some(&delete.path) => Err(ErrorCode::NoAuth),
                    () if !children(self, &delete.path).is_empty() => Err(ErrorCode::NotEmpty),
                    () if self.paths.remove(&delete.path) => Ok(Reply::Empty),
                    () => Err(ErrorCode::NoNode),
                }
            }
            Request::Sync(sync) => Ok(Reply::Synced(sync.path.clone())),
            Request::GetChildren2(_) => Err(ErrorCode::NoNode),
            Request::CloseSession | Request::Ping => Ok(Reply::Empty),
            other => panic!("{other:?}"),
        }
    }
}

async fn serve(mut listener: Listener, tree: Arc<Mutex<Tree>>, others: Others) {
    loop {
        let mut peer: Peer = listener.accept().await;
        while let Some((xid, request)) = peer.next().await {
            let answer = {
                let mut tree = tree.lock().expect("no panic");
                let lost = tree.lose == Some(0);
                tree.lose = tree.lose.and_then(|left| left.checked_sub(1));
                let answer = tree.answer(&request);
                others(&mut tree.paths, &request);
                if lost { None } else { Some(answer) }
            };
            match answer {
                Some(Ok(reply)) => peer.reply(xid, reply).await,
                Some(Err(code)) => peer.error(xid, code).await,
                None => break,
            }
        }
    }
}

/// A client of a server with these paths.
async fn tree(paths: &[&str], others: Others) -> (Client, Arc<Mutex<Tree>>) {
    let (connect, listener) = listener();
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    let tree = Arc::new(Mutex::new(Tree { paths, ..Tree::default() }));
    tokio::spawn(serve(listener, Arc::clone(&tree), others));
    (Client::connect(connect).await.expect("a session"), tree)
}

fn nobody(_: &mut BTreeSet<String>, _: &Request) {}

fn left(tree: &Mutex<Tree>) -> Vec<String> {
    tree.lock().expect("no panic").paths.iter().cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_tree_is_deleted_from_its_leaves_to_its_top_and_nothing_else() {
    let paths = [
        "/",
        "/a",
        "/a/b",
        "/a/b/c",
        "/a/b/c/d",
        "/a/b/e",
        "/a/f",
        "/ab",
        "/b",
        "/a/g",
        "/a/g/h",
        "/zookeeper",
    ];
    let (zk, tree) = tree(&paths, nobody).await;
    zk.delete_recursive("/a").await.expect("deleted");
    assert_eq!(left(&tree), ["/", "/ab", "/b", "/zookeeper"]);
    zk.delete_recursive("/b").await.expect("a znode without children");
    let error = zk.delete_recursive("/a").await.expect_err("absent");
    assert_eq!(error.to_string(), "getChildren /a: no such znode");
}

#[tokio::test(start_paused = true)]
async fn many_children_are_deleted_with_one_listing() {
    let many: Vec<String> = (0..1_000).map(|n| format!("/a/{n}")).collect();
    let paths: Vec<&str> = ["/", "/a"].into_iter().chain(many.iter().map(String::as_str)).collect();
    let (zk, tree) = tree(&paths, nobody).await;
    zk.delete_recursive("/a").await.expect("deleted");
    assert_eq!(left(&tree), ["/"]);
    assert_eq!(tree.lock().expect("no panic").deletes.len(), 1_001, "each once");
}

#[tokio::test(start_paused = true)]
async fn a_chroot_is_below_which_everything_happens_and_its_root_goes_too() {
    let (zk, tree) = tree(&["/", "/app", "/app/a", "/app/a/b", "/b"], nobody).await;
    let app = zk.chroot("/app").expect("a path");
    app.delete_recursive("/a").await.expect("deleted");
    assert_eq!(left(&tree), ["/", "/app", "/b"]);
    tree.lock().expect("no panic").paths.insert("/app/c".to_owned());
    app.delete_recursive("/").await.expect("deleted");
    assert_eq!(left(&tree), ["/", "/b"]);
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_the_server_is_refused_before_anything_is_sent() {
    let paths = ["/", "/a", "/zookeeper", "/zookeeper/quota", "/zookeepers", "/zookeepers/a"];
    let (zk, tree) = tree(&paths, nobody).await;
    let system = zk.chroot("/zookeeper").expect("a path");
    for outcome in [
        zk.delete_recursive("/").await,
        zk.delete_recursive("/zookeeper").await,
        zk.delete_recursive("/zookeeper/quota").await,
        system.delete_recursive("/").await,
        system.delete_recursive("/quota").await,
    ] {
        let error = outcome.expect_err("refused");
        assert!(matches!(error, Error::InvalidOptions { .. }), "{error:?}");
        assert!(error.to_string().contains("belongs to the server"), "{error}");
    }
    assert_eq!(left(&tree), paths);
    zk.delete_recursive("/zookeepers").await.expect("another name");
}

#[tokio::test(start_paused = true)]
async fn what_others_create_or_delete_meanwhile_is_no_error_as_long_as_they_stop() {
    let (zk, tree) = tree(&["/", "/a", "/a/b", "/a/b/c", "/a/d"], |paths, request| {
        match request {
            // They delete what was listed, and create once below what is deleted.
            Request::GetChildren2(get) if get.path == "/a" => _ = paths.remove("/a/d"),
            Request::Delete(delete) if delete.path == "/a/b/c" => _ = paths.insert("/a/b/later".to_owned()),
            _ => {}
        }
    })
    .await;
    zk.delete_recursive("/a").await.expect("deleted");
    assert_eq!(left(&tree), ["/"]);
}

#[tokio::test(start_paused = true)]
async fn others_that_create_again_and_again_are_an_error_after_sixteen_retries() {
    let (zk, tree) = tree(&["/", "/a", "/a/b"], |paths, request| {
        if matches!(request, Request::Delete(delete) if delete.path == "/a/b") {
            paths.insert("/a/b".to_owned());
        }
    })
    .await;
    let error = zk.delete_recursive("/a").await.expect_err("never empty");
    assert_eq!(
        error.to_string(),
        "delete /a: the znode has children; others create znodes below it while it is deleted"
    );
    assert_eq!(tree.lock().expect("no panic").deletes.len(), 2 * 17);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_at_any_request_does_not_stop_it() {
    for lose in 0..12 {
        let (zk, tree) = tree(&["/", "/a", "/a/b", "/a/b/c", "/a/b/d", "/a/e"], nobody).await;
        tree.lock().expect("no panic").lose = Some(lose);
        zk.delete_recursive("/a").await.unwrap_or_else(|error| panic!("request {lose}: {error}"));
        assert_eq!(left(&tree), ["/"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_znode_that_may_not_be_deleted_is_named() {
    let (zk, tree) = tree(&["/", "/a", "/a/b", "/a/b/c"], nobody).await;
    tree.lock().expect("no panic").denied = Some("/a/b/c");
    let error = zk.delete_recursive("/a").await.expect_err("denied");
    assert_eq!(error.to_string(), "delete /a/b/c: not authorized");
}

#[tokio::test(start_paused = true)]
async fn the_timeout_is_that_of_the_whole() {
    let (connect, mut listener) = listener();
    let (zk, _silent) = tokio::join!(Client::connect(connect), listener.accept());
    let zk = zk.expect("a session");
    let start = tokio::time::Instant::now();
    let error = zk.delete_recursive("/a").timeout(Duration::from_secs(2)).await.expect_err("late");
    assert_eq!((error.to_string().as_str(), start.elapsed().as_secs()), ("deleteRecursive /a: timed out", 2));
    assert!(error.may_have_applied());
}

#[tokio::test(start_paused = true)]
async fn the_timeout_needs_no_timers_where_it_is_awaited() {
    let (zk, tree) = tree(&["/", "/a", "/a/b"], nobody).await;
    let elsewhere = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(zk.delete_recursive("/a").timeout(Duration::from_secs(2)).into_future())
    };
    tokio::task::spawn_blocking(elsewhere).await.expect("no panic").expect("deleted");
    assert_eq!(left(&tree), ["/"]);
}
