use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use zoolet_proto::path;

use super::*;

/// Whom a change notifies, in order.
fn notified(table: &mut WatchTable, path: &str, aspect: Aspect) -> Vec<ConnId> {
    let mut conns: Vec<_> = table.trigger(path, aspect).iter().flat_map(|list| list.to_vec()).collect();
    conns.sort_unstable();
    conns
}

const A: ConnId = ConnId(1);
const B: ConnId = ConnId(2);

#[test]
fn a_one_shot_watch_is_used_up_and_a_persistent_one_stays() {
    let mut table = WatchTable::default();
    table.add(A, "/a", Modes::DATA);
    table.add(B, "/a", Modes::PERSISTENT);
    assert_eq!(notified(&mut table, "/a", Aspect::Data), [A, B]);
    assert_eq!(notified(&mut table, "/a", Aspect::Data), [B]);
    assert_eq!(table.len(), 1);
}

#[test]
fn several_modes_on_one_path_notify_once() {
    let mut table = WatchTable::default();
    for mode in [Modes::DATA, Modes::PERSISTENT, Modes::RECURSIVE] {
        table.add(A, "/a", mode);
    }
    table.add(A, "/", Modes::RECURSIVE);
    assert_eq!(notified(&mut table, "/a", Aspect::Data), [A]);
    assert!(table.contains(A, "/a", WatcherType::Persistent));
    assert!(table.remove(A, "/a", WatcherType::PersistentRecursive));
    assert!(!table.remove(A, "/a", WatcherType::Data));
    assert_eq!(notified(&mut table, "/a", Aspect::Children), [A]);
}

#[test]
fn a_recursive_watch_fires_for_every_descendant_but_never_for_lists_of_children() {
    let mut table = WatchTable::default();
    table.add(A, "/r", Modes::RECURSIVE);
    assert_eq!(notified(&mut table, "/r/x/y", Aspect::Data), [A]);
    assert_eq!(notified(&mut table, "/r", Aspect::Data), [A]);
    assert_eq!(notified(&mut table, "/rx", Aspect::Data), []);
    assert_eq!(notified(&mut table, "/r", Aspect::Children), []);
}

#[test]
fn watches_are_dropped_with_their_connection() {
    let mut table = WatchTable::default();
    table.add(A, "/a", Modes::CHILD);
    table.add(A, "/b", Modes::RECURSIVE);
    table.add(B, "/a", Modes::CHILD);
    table.drop_connection(A);
    assert_eq!(table.len(), 1);
    assert_eq!(notified(&mut table, "/b/c", Aspect::Data), []);
    assert_eq!(notified(&mut table, "/a", Aspect::Children), [B]);
}

#[test]
fn every_watch_is_listed_once_for_each_kind_sorted_by_path_connection_and_kind() {
    let mut table = WatchTable::default();
    table.add(B, "/b", Modes::RECURSIVE);
    table.add(B, "/a", Modes::PERSISTENT);
    table.add(A, "/a/x", Modes::CHILD);
    table.add(A, "/a", Modes::CHILD);
    table.add(A, "/a", Modes::DATA);
    let listed = |table: &WatchTable| -> Vec<String> {
        table.iter().map(|watch| format!("{} {} {}", watch.path, watch.conn, watch.kind)).collect()
    };
    let all = ["/a 1 data", "/a 1 child", "/a 2 persistent", "/a/x 1 child", "/b 2 recursive"];
    assert_eq!(listed(&table), all);
    table.trigger("/a", Aspect::Data);
    assert_eq!(listed(&table), all[1..]);
}

#[test]
fn watches_are_counted_by_table_as_a_real_server_does() {
    let mut table = WatchTable::default();
    table.add(A, "/a", Modes::DATA);
    table.add(A, "/b", Modes::CHILD);
    table.add(A, "/c", Modes::PERSISTENT);
    table.add(B, "/a", Modes::RECURSIVE);
    assert_eq!((table.len(), table.count_by_table()), (4, 5));
    let on_data = |conn, after| -> Vec<_> {
        table.paths_of(conn, after).map(|(path, on_data)| (path.to_string(), on_data)).collect()
    };
    let path = |path: &str, on_data| (path.to_owned(), on_data);
    assert_eq!(on_data(A, None), [path("/a", true), path("/b", false), path("/c", true)]);
    assert_eq!(on_data(A, Some("/a")), [path("/b", false), path("/c", true)]);
    assert_eq!((on_data(B, None), table.connections().len()), (vec![path("/a", true)], 2));

    table.add(A, "/a", Modes::CHILD);
    assert_eq!((table.len(), table.count_by_table()), (4, 6));
    table.trigger("/a", Aspect::Data);
    assert_eq!((table.len(), table.count_by_table()), (4, 5));
    table.drop_connection(A);
    table.drop_connection(B);
    assert_eq!((table.len(), table.count_by_table()), (0, 0));
}

#[test]
fn changes_under_the_same_persistent_watches_share_one_list() {
    let mut table = WatchTable::default();
    for conn in (0..100).map(ConnId) {
        table.add(conn, "/", Modes::RECURSIVE);
        table.add(conn, "/a", Modes::RECURSIVE);
        table.add(conn, "/a/b", Modes::PERSISTENT);
    }
    let first = table.trigger("/a/b", Aspect::Data);
    let [list] = &first[..] else { panic!("{first:?}") };
    assert_eq!(list.len(), 100);
    for path in ["/a/b", "/a/b/c", "/x"] {
        let next = table.trigger(path, Aspect::Data);
        assert!(matches!(&next[..], [next] if next.as_ptr() == list.as_ptr()), "{path}");
    }
    let children = [(); 2].map(|()| table.trigger("/a/b", Aspect::Children));
    assert!(matches!(&children, [one, two] if one[0].as_ptr() == two[0].as_ptr()));
    assert!(table.remove(ConnId(7), "/", WatcherType::PersistentRecursive));
    assert_eq!(notified(&mut table, "/x", Aspect::Data).len(), 99);
    assert_eq!(notified(&mut table, "/a", Aspect::Data).len(), 100);
}

/// What a table does, written naively.
#[derive(Default)]
struct Naive(BTreeMap<(String, ConnId), u8>);

impl Naive {
    fn trigger(&mut self, path: &str, aspect: Aspect) -> Vec<ConnId> {
        let mut conns = Vec::new();
        for ((at, conn), modes) in &mut self.0 {
            let above = at == "/" || path == at || (!at.is_empty() && path.starts_with(&format!("{at}/")));
            let recursive = aspect != Aspect::Children && above && *modes & Modes::RECURSIVE.0 != 0;
            let exact = path == at && *modes & (aspect.one_shot().0 | Modes::PERSISTENT.0) != 0;
            if recursive || exact {
                conns.push(*conn);
            }
            if path == at {
                *modes &= !aspect.one_shot().0;
            }
        }
        self.0.retain(|_, modes| *modes != 0);
        conns.sort_unstable();
        conns.dedup();
        conns
    }
}

proptest! {
    #[test]
    fn any_changes_notify_whom_a_naive_table_notifies(steps in vec((0_u8..8, 0_u8..5, 0_usize..7, 0_u8..4), 0..80)) {
        const PATHS: [&str; 7] = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/a/", ""];
        let (mut table, mut naive) = (WatchTable::default(), Naive::default());
        for (step, conn, path, mode) in steps {
            let (conn, path) = (ConnId(conn.into()), PATHS[path]);
            let kinds = [Modes::DATA, Modes::CHILD, Modes::PERSISTENT, Modes::RECURSIVE];
            let types = [
                WatcherType::Data, WatcherType::Children, WatcherType::Persistent,
                WatcherType::PersistentRecursive,
            ];
            let mode = usize::from(mode);
            match step {
                0..4 => {
                    table.add(conn, path, kinds[mode]);
                    *naive.0.entry((path.to_owned(), conn)).or_default() |= kinds[mode].0;
                }
                4 => {
                    let modes = naive.0.get_mut(&(path.to_owned(), conn));
                    let found = modes.is_some_and(|modes| {
                        let found = *modes & kinds[mode].0 != 0;
                        *modes &= !kinds[mode].0;
                        found
                    });
                    naive.0.retain(|_, modes| *modes != 0);
                    prop_assert_eq!(table.remove(conn, path, types[mode]), found);
                }
                5 if mode == 0 => {
                    table.drop_connection(conn);
                    naive.0.retain(|(_, of), _| *of != conn);
                }
                _ if path::validate(path).is_ok() => {
                    let aspect = [Aspect::Data, Aspect::Children, Aspect::Deleted][mode % 3];
                    let lists = table.trigger(path, aspect);
                    prop_assert!(lists.iter().all(|list| !list.is_empty() && list.is_sorted()));
                    let mut conns: Vec<_> = lists.iter().flat_map(|list| list.to_vec()).collect();
                    conns.sort_unstable();
                    prop_assert_eq!(conns, naive.trigger(path, aspect));
                }
                _ => {}
            }
            prop_assert_eq!(table.len(), naive.0.len());
        }
    }
}
