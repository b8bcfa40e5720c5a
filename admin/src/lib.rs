//! The HTTP side of a Zoolet server: the commands of ZooKeeper's admin server, metrics, and a page to look at.
