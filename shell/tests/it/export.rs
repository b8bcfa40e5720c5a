//! What `export` writes while others write.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use serde_json::Value;
use zoolet::testing::TestServer;
use zoolet::{Client, Zxid};

use crate::common::run_between;

/// More than the requests that an export keeps in flight.
const PLACES: usize = 300;
const EXPORTS: usize = 20;

/// Moves a token from place to place, each time by one transaction, and notes when it came where.
async fn move_a_token(client: &Client, moved: &RefCell<BTreeMap<Zxid, usize>>, done: &Cell<bool>) {
    let mut at = 0;
    while !done.get() {
        let to = (at + 7) % PLACES;
        let (from, next) = (format!("/t/{at:03}"), format!("/t/{to:03}"));
        let moves = client.multi().set_data(from, "");
        let moves = match to % 3 {
            // It is another znode then.
            0 => moves.delete(&next).create(&next, "token"),
            _ => moves.set_data(&next, "token"),
        };
        let outcomes = moves.await.unwrap();
        moved.borrow_mut().insert(outcomes.last().unwrap().stat().unwrap().mzxid, to);
        at = to;
    }
}

/// The transaction that an export names, and the places that have the token.
fn token_of(export: &str) -> (Zxid, Vec<usize>) {
    let mut lines = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let zxid = lines.next().unwrap()["zxid"].as_str().unwrap().trim_start_matches("0x").to_owned();
    let places = lines.filter(|znode| znode["data"] == "token");
    let places = places.map(|znode| znode["path"].as_str().unwrap()[1..].parse().unwrap()).collect();
    (Zxid(i64::from_str_radix(&zxid, 16).unwrap()), places)
}

#[tokio::test]
async fn an_export_beside_writers_is_the_tree_after_the_transaction_that_it_names() {
    let zk = TestServer::builder().znode("/t", "").start().await.unwrap();
    let client = zk.client().await;
    for place in 0..PLACES {
        client.create(format!("/t/{place:03}"), "").await.unwrap();
    }
    let first = client.set_data("/t/000", "token").await.unwrap().mzxid;
    let (moved, done) = (RefCell::new(BTreeMap::from([(first, 0)])), Cell::new(false));
    let exporting = async {
        let (mut seen, mut meanwhile) = (Vec::new(), 0);
        for _ in 0..EXPORTS {
            let before = moved.borrow().len();
            seen.push(token_of(&run_between(&zk, &zk, "export /t", None).await.ok()));
            meanwhile += usize::from(moved.borrow().len() > before);
        }
        done.set(true);
        (seen, meanwhile)
    };
    let ((seen, meanwhile), ()) = tokio::join!(exporting, move_a_token(&client, &moved, &done));
    for (zxid, places) in seen {
        let (_, place) = moved.borrow().range(..=zxid).next_back().map(|(zxid, at)| (*zxid, *at)).unwrap();
        assert_eq!(places, [place], "as of {zxid}");
    }
    assert_eq!(meanwhile, EXPORTS, "the token moves during each");
}
