//! [`ClientRule`]: what a client must do, and where that is known from.

macro_rules! rules {
    ($($(#[$meta:meta])* $row:ident = $name:literal, $meaning:literal, $source:literal;)*) => {
        /// A rule that clients must obey.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ClientRule { $($(#[$meta])* $row,)* }

        impl ClientRule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$row,)*];

            /// The name, such as `xid-reused`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$row => $name,)* }
            }

            /// What a client must do, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$row => $meaning,)* }
            }

            /// Where that is known from.
            pub fn source(self) -> &'static str {
                match self { $(Self::$row => $source,)* }
            }
        }
    };
}

rules! {
    /// A request was sent before the handshake was answered.
    HandshakeFirst = "handshake-first",
        "No request is sent before the connect request is answered",
        "ClientCnxnSocketNIO.doIO of the Java client: a server that refuses the session closes at once, and what the client is still writing can make TCP discard the refusal";
    /// An xid occurs twice on a connection.
    XidReused = "xid-reused",
        "No two requests of a connection have the same xid",
        "a reply has nothing but the xid of its request";
    /// An xid is lower than that of an earlier request.
    XidBackwards = "xid-backwards",
        "The xids of a connection rise; from the largest number they start again",
        "ClientCnxn.getXid of the Java client";
    /// A negative xid that is not reserved.
    XidReserved = "xid-reserved",
        "A negative xid is -2 on a ping, -4 on an auth packet or -8 on a setWatches; no other request has one",
        "ClientCnxn.NOTIFICATION_XID, PING_XID, AUTHPACKET_XID and SET_WATCHES_XID";
    /// Watches were not set again on the connection that follows.
    WatchesNotRestored = "watches-not-restored",
        "After a reconnect, setWatches or setWatches2 lists every watch that has not fired, or the watch is set anew by another request",
        "DataTree: a watch belongs to a connection and vanishes with it";
    /// Credentials were not sent again on the connection that follows.
    AuthNotRestored = "auth-not-restored",
        "After a reconnect, SASL is done and each auth packet is sent again before any request that is judged by an ACL",
        "ServerCnxn.authInfo: identities belong to a connection";
    /// The client was silent for too long.
    PingTooLate = "ping-too-late",
        "A connected client is never silent for more than two thirds of the session timeout that the server granted",
        "ClientCnxn.SendThread of the Java client pings after a third, and gives up a server that is silent for two thirds";
    /// The last zxid in a connect request or setWatches is none that the client can have seen last.
    WrongLastZxid = "wrong-last-zxid",
        "A connect request for a session, and setWatches, have the largest zxid of the replies to the client's requests; the zxids of pings and events may count",
        "ZooKeeperServer.processConnectRequest: it is what keeps a client from a server that is behind it";
    /// A session was resumed with an id or a password that it does not have.
    WrongSession = "wrong-session",
        "A session is resumed with the id and the password that the server has given",
        "ZooKeeperServer.reopenSession";
    /// A new session was opened while the old one could have been resumed.
    SessionAbandoned = "session-abandoned",
        "After a lost connection the session is resumed, and not left to expire",
        "ClientCnxn.SendThread.primeConnection of the Java client";
    /// A frame is longer than servers accept.
    Oversized = "oversized",
        "No frame is longer than 1048575 bytes",
        "NIOServerCnxn.readLength: the default of jute.maxbuffer";
    /// A session that has ended was used again.
    AfterExpiry = "after-expiry",
        "A session that was refused or closed is never asked for again",
        "ClientCnxn.SendThread.onConnected of the Java client";
    /// Bytes that no server can decode.
    Undecodable = "undecodable",
        "Every frame is a connect request or a request that ZooKeeper knows, whole and well-formed",
        "ZooKeeperServer.processPacket";
}

impl std::fmt::Display for ClientRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
