//! What each file has is shown, damaged or not.

use zoolet_proto::Zxid;
use zoolet_storage::log::LogEnd;
use zoolet_storage::{Inspection, inspect};

use crate::recovery::scene::Scene;
use crate::recovery::support::files;

fn inspected(scene: &Scene) -> Inspection {
    let before = files(&scene.disk);
    let found = inspect(&scene.disk, &scene.options, &mut |_, _| {}).unwrap();
    assert_eq!(files(&scene.disk), before, "nothing is changed");
    found
}

#[test]
fn every_file_shows_what_it_has() {
    let scene = Scene::new();
    scene.write("currentEpoch", "0");
    scene.write("acceptedEpoch", "one");
    scene.write("snapshot.0.bak", "");
    scene.write(".zoolet-log.tmp", "");
    let found = inspected(&scene);
    let zxids: Vec<_> = found.snapshots.iter().map(|snapshot| snapshot.file.zxid).collect();
    assert_eq!(zxids, [Zxid(10), Zxid(0)]);
    let summary = found.snapshots[0].content.as_ref().unwrap();
    assert_eq!(summary.znodes, scene.states[10].len() as u64);
    assert_eq!((summary.sessions, summary.ephemerals, summary.latest), (1, 1, 1_700_000_000_010));
    assert_eq!((summary.zxid, summary.last_zxid), (Some(Zxid(10)), Some(Zxid(10))));
    let log = found.logs[0].content.as_ref().unwrap();
    assert_eq!(log.first, Some((Zxid(1), 1_700_000_000_001)));
    assert_eq!(log.last, Some((Zxid(10), 1_700_000_000_010)));
    assert_eq!((log.txns, log.refused, log.sessions_opened, log.sessions_closed), (10, 1, 1, 0));
    assert!(log.has_batches);
    assert_eq!((log.used, log.end), (scene.end(10) as u64, LogEnd::Clean { offset: scene.end(10) as u64 }));
    assert_eq!(found.logs[1].content.as_ref().unwrap().first, Some((Zxid(11), 1_700_000_000_011)));
    assert!(matches!(found.current_epoch, Ok(Some(0))) && found.accepted_epoch.is_err());
    assert!(found.foreign[0].ends_with("snapshot.0.bak") && found.leftovers[0].ends_with(".zoolet-log.tmp"));
    assert_eq!(found.damage, None);
}

#[test]
fn a_damaged_file_stands_beside_the_others() {
    let scene = Scene::new();
    scene.edit("snapshot.a", |snapshot| snapshot.truncate(300));
    scene.damage(15, |entry| entry[20] ^= 1);
    let found = inspected(&scene);
    assert!(found.snapshots[0].content.is_err() && found.snapshots[1].content.is_ok());
    let log = found.logs[1].content.as_ref().unwrap();
    assert_eq!(log.last.unwrap().0, Zxid(14));
    assert!(matches!(log.end, LogEnd::Damaged { next: Some((_, Zxid(16))), .. }), "{:?}", log.end);
}

#[test]
fn a_directory_that_does_not_exist_has_no_files() {
    let scene = Scene::new();
    let mut options = scene.options.clone();
    options.data_dir = "/nothing".into();
    let found = inspect(&scene.disk, &options, &mut |_, _| {}).unwrap();
    assert!(found.snapshots.is_empty() && found.logs.is_empty());
    assert!(matches!(found.current_epoch, Ok(None)));
}
