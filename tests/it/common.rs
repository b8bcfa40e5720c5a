//! What these tests share, besides `zoolet_test_support`.

use zoolet::testing::{TestServer, TestServerBuilder};
use zoolet_test_support::limit;

/// As [`TestServer::builder`], for a test that must end within the time limit.
pub fn test_server() -> TestServerBuilder {
    limit();
    TestServer::builder()
}
