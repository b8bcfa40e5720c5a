//! What these tests share, besides `zoolet_test_support`.

use zoolet::testing::{TestServer, TestServerBuilder};
use zoolet_test_support::{TestStorage, limit};

/// As [`TestServer::builder`], for a test that must end within the time limit. Unless `ZOOLET_TEST_STORAGE` is `memory`, the
/// server is on a simulated disk: on a real one a run would not repeat.
pub fn test_server() -> TestServerBuilder {
    limit();
    match TestStorage::from_environment() {
        TestStorage::Memory => TestServer::builder(),
        TestStorage::Simulated | TestStorage::Disk => TestServer::builder().durable(),
    }
}

/// As [`test_server`], with so many endpoints: in memory if there are several.
pub fn test_ensemble(endpoints: usize) -> TestServerBuilder {
    limit();
    if endpoints > 1 { TestServer::builder().endpoints(endpoints) } else { test_server() }
}
