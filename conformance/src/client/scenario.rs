//! [`ClientScenario`]: what is done to the connections of a client while it is judged.

/// One run of the command, and what is done to its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientScenario {
    pub(crate) disturbance: Disturbance,
    name: &'static str,
    fact: &'static str,
    seconds: u32,
}

macro_rules! scenarios {
    ($($(#[$meta:meta])* $disturbance:ident = $name:literal, $seconds:literal, $fact:literal;)*) => {
        /// What is done.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Disturbance { $($(#[$meta])* $disturbance,)* }

        const ALL: &[ClientScenario] = &[$(ClientScenario {
            disturbance: Disturbance::$disturbance,
            name: $name,
            fact: $fact,
            seconds: $seconds,
        },)*];
    };
}

scenarios! {
    // name, for how many seconds the program is asked to go on, what it shows
    #[default]
    Nothing = "undisturbed", 1, "Nothing happens to the connection";
    Idle = "idle", 7, "The program asks for nothing for longer than the session timeout";
    RefusedConnects = "refused-connects", 2, "The first two connections are closed at once";
    Reconnect = "reconnect", 4, "The connection is cut after the tenth reply";
    Watches = "watches", 9, "The connection is cut twice while a watch is set";
    ManyWatches = "many-watches", 5, "The connection is cut while watches are set whose paths are longer than a frame may be";
    Auth = "auth", 4, "The connection is cut after credentials were given";
    LostReply = "lost-reply", 4, "A write is done, and the connection cut in place of its reply";
    Moved = "moved", 4, "The connection is cut, and its server refuses from then on";
    Lagging = "lagging", 5, "The connection is cut, and the next server is behind what the client has seen";
    Expired = "expired", 4, "The connection is cut, and the session has expired when the client comes back";
    LargeReplies = "large-replies", 2, "The program reads 900 KiB of data and a list of 5000 children";
    EmptyReplies = "empty-replies", 2, "The program reads empty data and an empty list of children";
}

impl ClientScenario {
    /// Every scenario.
    pub fn all() -> &'static [Self] {
        ALL
    }

    /// The name, such as `lost-reply`; the command finds it in `ZOOKEEPER_SCENARIO`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What happens, in a sentence.
    pub fn fact(&self) -> &'static str {
        self.fact
    }

    /// For how many seconds the command is asked to use its client; it finds the number in `ZOOKEEPER_SECONDS`.
    pub fn seconds(&self) -> u32 {
        self.seconds
    }
}
