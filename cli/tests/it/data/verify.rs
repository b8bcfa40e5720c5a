use crate::common::directory::DataDirectory;

#[test]
fn a_directory_without_a_fault_is_said_to_have_none() {
    let directory = DataDirectory::sample();
    let ran = directory.run("verify", &[]);
    let last = "1 snapshot, 1 log file, 10 transactions, 0 faults: a server can open it, up to zxid 0xa\n";
    assert_eq!(ran.clean(), last);
}

#[test]
fn every_fault_is_listed_and_the_exit_code_is_1() {
    let directory = DataDirectory::sample();
    let entries = [2, 5].map(|number| directory.entry("log.1", number));
    directory.edit("log.1", |bytes| entries.into_iter().for_each(|entry| bytes[entry + 20] ^= 1));
    directory.edit("snapshot.0", |bytes| bytes[100] ^= 1);
    let ran = directory.run("verify", &[]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    let faults: Vec<_> = ran.out.lines().filter_map(|line| line.strip_prefix("fault: ")).collect();
    let [log, snapshot] = ["log.1", "snapshot.0"].map(|name| directory.file(name).display().to_string());
    let [first, second] = entries.map(|at| format!("{log}, byte {at}: the checksum of an entry is wrong"));
    for (fault, expected) in faults.iter().zip([snapshot, first, second]) {
        assert!(fault.starts_with(&expected), "{ran:?}");
    }
    let last = "1 snapshot, 1 log file, 8 transactions, 3 faults: a server cannot open it";
    assert_eq!((faults.len(), ran.out.lines().last()), (3, Some(last)));
}

#[test]
fn a_torn_write_is_a_note_and_no_fault() {
    let directory = DataDirectory::sample();
    let torn = directory.entry("log.1", 9);
    directory.edit("log.1", |bytes| bytes[torn + 20] ^= 1);
    let ran = directory.run("verify", &[]);
    let [note, last] = ran.clean().lines().collect::<Vec<_>>()[..] else { panic!("{ran:?}") };
    let expected = format!("note: {}, byte {torn}: ", directory.file("log.1").display());
    assert!(note.starts_with(&expected) && note.contains("the last write was not finished"), "{ran:?}");
    assert!(last.ends_with(", 0 faults: a server can open it, up to zxid 0x9"), "{ran:?}");
}
