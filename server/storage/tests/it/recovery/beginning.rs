//! The first start on an empty directory is interrupted.

use std::sync::Arc;

use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::open;

use super::support::{crashes, options};

/// Otherwise it would take an operator to allow it once more.
#[test]
fn an_empty_database_that_is_allowed_once_begins_whenever_its_start_is_interrupted() {
    let mut options = options();
    options.create_database = false;
    let disk = SimulatedDisk::new(1);
    disk.write("/data/initialize", b"").unwrap();
    disk.keep_history();
    open(Arc::new(disk.clone()), options.clone()).unwrap();
    for (how, disk) in crashes(&disk) {
        let opened = open(Arc::new(disk), options.clone());
        opened.unwrap_or_else(|error| panic!("{how}: {error}"));
    }
}
