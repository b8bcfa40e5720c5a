//! TLS for a ZooKeeper server and its clients, on rustls.
