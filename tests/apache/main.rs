//! What runs on Apache ZooKeeper 3.9. `tests/apache/run` fetches and starts it and runs these tests.

mod ensemble;
mod graduate;
mod storage;
