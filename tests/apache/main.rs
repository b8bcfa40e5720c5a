//! What is compared with, or run on, Apache ZooKeeper 3.9. `tests/apache/run` fetches and starts it and runs these tests.

mod ensemble;
mod frames;
mod graduate;
mod storage;
