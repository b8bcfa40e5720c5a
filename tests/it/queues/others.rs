//! Queues of Curator and kazoo, drained into ours.

use zoolet::Client;
use zoolet::recipes::{Queue, QueueLayout};

use super::{items, world};
use crate::request_fault::{RunEnd, at_every_request, run_with_fault};

const THEIRS: &str = "/theirs";

/// The znodes of a queue of another library.
async fn plant(client: &Client, layout: QueueLayout) {
    client.create(THEIRS, "").await.unwrap();
    let nodes: &[(&str, &[u8])] = match layout {
        QueueLayout::CuratorSimple => &[("qn-0000000000", b"one"), ("qn-0000000001", b"two"), ("lock", b"")],
        QueueLayout::CuratorDistributed => &[
            ("queue-0000000000", b"\0\x01\0\x01\x01\0\0\0\x03one\x01\0\0\0\x03two\x02"),
            ("queue-0000000001", b"broken"),
        ],
        _ => &[("entry-200-0000000000", b"two"), ("entry-100-0000000001", b"one")],
    };
    for (name, data) in nodes {
        client.create(format!("{THEIRS}/{name}"), data.to_vec()).await.unwrap();
    }
}

#[tokio::test]
async fn items_of_other_libraries_are_moved_once_whatever_happens_at_any_request() {
    for layout in [QueueLayout::CuratorSimple, QueueLayout::CuratorDistributed, QueueLayout::Kazoo] {
        at_every_request(async |fault, nth| {
            let case = format!("{layout:?}, {fault:?} at request {nth}");
            let (zk, _sessions, client, queue) = world(&[]).await;
            plant(&client, layout).await;
            let run = {
                let queue = queue.clone();
                async move { queue.drain_from(THEIRS, layout).await }
            };
            let end = run_with_fault(&zk, &client, fault, nth, run).await?;
            if let RunEnd::Returned(drained) = end {
                let drained = drained.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(drained.moved, 2, "{case}");
            }
            let next = super::sessions(&zk);
            let rest = async {
                let queue: Queue = super::open(&next).await;
                queue.drain_from(THEIRS, layout).await
            };
            let rest = zk.pass_time_until(rest).await.unwrap().unwrap();
            let mut moved = items(&zk);
            moved.sort();
            assert_eq!(moved, ["one", "two"], "{case}");
            match layout {
                QueueLayout::CuratorDistributed => {
                    let said = "/theirs/queue-0000000001: 6 bytes that are not items: \
                                it does not begin with 00 01 00 01";
                    assert_eq!(rest.left[0].to_string(), said, "{case}");
                    assert_eq!(zk.children(THEIRS), ["queue-0000000001"], "{case}");
                }
                QueueLayout::CuratorSimple => assert_eq!(zk.children(THEIRS), ["lock"], "{case}"),
                _ => assert_eq!(zk.children(THEIRS), Vec::<String>::new(), "{case}"),
            }
            Some(())
        })
        .await;
    }
}

#[tokio::test]
async fn moved_items_keep_their_order_and_priority() {
    let (_zk, _sessions, client, queue) = world(&[]).await;
    plant(&client, QueueLayout::Kazoo).await;
    assert_eq!(queue.drain_from("/absent", QueueLayout::Kazoo).await.unwrap().moved, 0);
    assert_eq!(queue.drain_from(THEIRS, QueueLayout::Kazoo).await.unwrap().moved, 2);
    for item in ["one", "two"] {
        let mut delivery = queue.take().await.unwrap();
        assert_eq!(delivery.data(), item);
        delivery.done().await.unwrap();
    }
}
