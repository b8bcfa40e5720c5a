//! Random changes against a naive model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Change {
    Write { file: u8, offset: u16, len: u16, byte: u8 },
    SetLen { file: u8, len: u16 },
    Reserve { file: u8, len: u16 },
    Sync { file: u8 },
    Rename { from: u8, to: u8 },
    Remove { file: u8 },
    SyncDir,
}

fn change() -> impl Strategy<Value = Change> {
    let file = 0..4u8;
    prop_oneof![
        4 => (file.clone(), 0..20_000u16, 0..9000u16, 1..=255u8)
            .prop_map(|(file, offset, len, byte)| Change::Write { file, offset, len, byte }),
        1 => (file.clone(), 0..20_000u16).prop_map(|(file, len)| Change::SetLen { file, len }),
        1 => (file.clone(), 0..20_000u16).prop_map(|(file, len)| Change::Reserve { file, len }),
        3 => file.clone().prop_map(|file| Change::Sync { file }),
        1 => (file.clone(), 0..4u8).prop_map(|(from, to)| Change::Rename { from, to }),
        1 => file.prop_map(|file| Change::Remove { file }),
        2 => Just(Change::SyncDir),
    ]
}

proptest! {
    /// The model keeps whole contents by name. What is synced is there after a power loss; what is not had its bytes at some time.
    #[test]
    fn synced_data_always_survive(changes in prop::collection::vec(change(), 1..60), seed: u64) {
        let disk = disk();
        let name = |file: u8| path(&format!("f{file}"));
        // By file: what a read shows, and whether all of it is synced. By name: the same for the directory.
        let mut contents: Vec<(Vec<u8>, bool)> = Vec::new();
        let mut open: Vec<Box<dyn DiskFile>> = Vec::new();
        let mut present: BTreeMap<u8, usize> = BTreeMap::new();
        let mut durable: BTreeMap<u8, usize> = BTreeMap::new();
        let mut touched: BTreeSet<u8> = BTreeSet::new();
        for change in &changes {
            let (Change::Write { file, .. } | Change::SetLen { file, .. } | Change::Reserve { file, .. } | Change::Sync { file }
                | Change::Rename { from: file, .. } | Change::Remove { file }) = *change else {
                disk.sync_dir(Path::new(DIR)).unwrap();
                durable = present.clone();
                touched.clear();
                continue;
            };
            let id = match present.get(&file) {
                Some(id) => *id,
                None => {
                    open.push(disk.create(&name(file)).unwrap());
                    contents.push((Vec::new(), true));
                    touched.insert(file);
                    present.insert(file, open.len() - 1);
                    open.len() - 1
                }
            };
            let (handle, (bytes, is_synced)) = (&mut open[id], &mut contents[id]);
            match *change {
                Change::Write { offset, len, byte, .. } => {
                    handle.write_at(&vec![byte; len.into()], offset.into()).unwrap();
                    let end = usize::from(offset) + usize::from(len);
                    if len > 0 {
                        bytes.resize(bytes.len().max(end), 0);
                        bytes[offset.into()..end].fill(byte);
                        *is_synced = false;
                    }
                }
                Change::SetLen { len, .. } => {
                    handle.set_len(len.into()).unwrap();
                    *is_synced &= bytes.len() == usize::from(len);
                    bytes.resize(len.into(), 0);
                }
                Change::Reserve { len, .. } => {
                    handle.reserve(len.into()).unwrap();
                    *is_synced &= bytes.len() >= usize::from(len);
                    bytes.resize(bytes.len().max(len.into()), 0);
                }
                Change::Sync { .. } => {
                    handle.sync().unwrap();
                    *is_synced = true;
                }
                Change::Rename { from, to } => {
                    disk.rename(&name(from), &name(to)).unwrap();
                    if from != to {
                        present.remove(&from);
                        present.insert(to, id);
                        touched.extend([from, to]);
                    }
                }
                Change::Remove { file } => {
                    disk.remove(&name(file)).unwrap();
                    present.remove(&file);
                    touched.insert(file);
                }
                Change::SyncDir => {}
            }
        }
        for (file, id) in &present {
            prop_assert_eq!(&disk.read(name(*file)).unwrap(), &contents[*id].0);
        }
        let after = disk.power_loss(seed);
        for (file, id) in durable.iter().filter(|(file, _)| !touched.contains(file)) {
            let left = after.read(name(*file));
            prop_assert!(left.is_ok(), "f{} is gone", file);
            if contents[*id].1 {
                prop_assert_eq!(&left.unwrap(), &contents[*id].0, "f{}", file);
            }
        }
        for file in (0..4).filter(|file| !durable.contains_key(file) && !touched.contains(file)) {
            prop_assert!(after.read(name(file)).is_err(), "f{} was removed durably", file);
        }
    }
}
