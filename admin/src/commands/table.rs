//! The commands of Apache ZooKeeper's admin server, with their names (`Commands`).

/// Commands, each with its names; the first one is shown.
macro_rules! commands {
    ($($command:ident = $name:literal $(, $alias:literal)*;)*) => {
        /// A command.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Command {
            $($command),*
        }

        impl Command {
            /// All of them, sorted by name.
            pub(super) const ALL: [Self; 28] = [$(Self::$command),*];

            /// The command that has this name or alias, in small letters.
            pub(super) fn named(name: &str) -> Option<Self> {
                match name {
                    $($name $(| $alias)* => Some(Self::$command),)*
                    _ => None,
                }
            }

            /// Its first name.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$command => $name),*
                }
            }
        }
    };
}

commands! {
    Configuration = "configuration", "conf", "config";
    ConnectionStatReset = "connection_stat_reset", "crst";
    Connections = "connections", "cons";
    Dirs = "dirs";
    Dump = "dump";
    Environment = "environment", "env", "envi";
    GetTraceMask = "get_trace_mask", "gtmk";
    Hash = "hash";
    InitialConfiguration = "initial_configuration", "icfg";
    IsReadOnly = "is_read_only", "isro";
    LastSnapshot = "last_snapshot", "lsnp";
    Leader = "leader", "lead";
    Monitor = "monitor", "mntr";
    ObserverConnectionStatReset = "observer_connection_stat_reset", "orst";
    Observers = "observers", "obsr";
    Restore = "restore", "rest";
    Ruok = "ruok";
    ServerStats = "server_stats", "srvr";
    SetTraceMask = "set_trace_mask", "stmk";
    Snapshot = "snapshot", "snap";
    StatReset = "stat_reset", "srst";
    Stats = "stats", "stat";
    SystemProperties = "system_properties", "sysp";
    VotingView = "voting_view";
    WatchSummary = "watch_summary", "wchs";
    Watches = "watches", "wchc";
    WatchesByPath = "watches_by_path", "wchp";
    Zabstate = "zabstate";
}

impl Command {
    /// Whether it is answered while the server does not serve.
    pub(super) fn needs_no_server(self) -> bool {
        use Command::*;
        matches!(self, Environment | GetTraceMask | SetTraceMask | Monitor | SystemProperties | Zabstate)
    }

    /// Whether it takes somebody who may do everything with the root.
    pub(super) fn needs_authorization(self) -> bool {
        matches!(self, Self::Restore | Self::Snapshot)
    }

    /// Whether its answer may be as long as the state is large.
    pub(super) fn lists(self) -> bool {
        use Command::*;
        matches!(self, Connections | Dump | Stats | Watches | WatchesByPath | WatchSummary)
    }
}

#[cfg(test)]
mod tests {
    use zoolet_proto::FourLetterWord as Word;

    use super::*;

    #[test]
    fn names_are_sorted_and_lead_to_their_commands() {
        let names = Command::ALL.map(Command::name);
        assert!(names.is_sorted(), "{names:?}");
        for (command, name) in Command::ALL.into_iter().zip(names) {
            assert_eq!(Command::named(name), Some(command));
            assert_eq!(Command::named(&name.to_uppercase()), None);
        }
    }

    #[test]
    fn every_four_letter_word_that_apache_has_as_a_command_is_one() {
        for word in Word::ALL.iter().filter(|word| **word != Word::TelnetClose) {
            assert!(Command::named(word.name()).is_some(), "{word:?}");
        }
    }
}
