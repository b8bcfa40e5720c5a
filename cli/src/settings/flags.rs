//! The flags of `zoolet serve` that are settings, as the table has them.

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::table::{BOOL, DIR, GROUPS, SettingGroup, SettingRow, settings};
use super::written::Written;
use super::{SettingMistake, Settings, doubtful};
use crate::text::quoted;

/// The flags that were given, in the order of the table.
pub(crate) struct Flags(Vec<(&'static SettingRow, String)>);

impl Flags {
    /// Applies them, over what a file has set. Returns what is wrong.
    pub(crate) fn apply(&self, to: &mut Settings) -> Vec<SettingMistake> {
        let mistake = |(row, text): &(&SettingRow, String)| {
            let hint = (row.set)(to, Written::Flag(text)).err()?;
            Some(match row.flag.filter(|_| row.secret) {
                Some(flag) => {
                    SettingMistake::Secret { what: flag.replace('-', " "), origin: format!("--{flag}"), hint }
                }
                None => SettingMistake::Flag { value: quoted(text), usage: row.usage(), hint },
            })
        };
        self.0.iter().filter_map(mistake).collect()
    }

    /// Those that mean nothing without a data directory: a mistake, each of them, if there is none.
    pub(crate) fn without_data_dir(&self) -> impl Iterator<Item = SettingMistake> + '_ {
        let rows = self.0.iter().map(|(row, _)| row).filter(|row| row.needs_data_dir);
        rows.filter_map(|row| row.flag).map(|flag| SettingMistake::NoDataDir { flag })
    }

    /// Directories that are most likely not meant.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> + '_ {
        let dirs = self.0.iter().filter(|(row, _)| row.takes == DIR);
        dirs.filter_map(|(row, dir)| doubtful::directory(&format!("--{}", row.flag?), dir.as_ref()))
    }
}

impl SettingRow {
    /// The flag with what it takes, as clap shows it.
    fn usage(&self) -> String {
        let (flag, takes) = (self.flag.unwrap_or_default(), self.takes);
        if takes == BOOL { format!("--{flag}[=<{takes}>]") } else { format!("--{flag} <{takes}>") }
    }

    fn arg(&'static self) -> Option<Arg> {
        let flag = self.flag?;
        let arg = Arg::new(flag)
            .long(flag)
            .value_name(self.takes)
            .allow_negative_numbers(true)
            .help(format!("{} [default: {}]", self.help, self.default));
        Some(match self.takes {
            _ if self.repeats => arg.action(ArgAction::Append),
            BOOL => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
            _ => arg,
        })
    }
}

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        let args = |group: &'static SettingGroup| {
            let args = group.rows.iter().filter_map(SettingRow::arg);
            args.map(|arg| arg.help_heading(group.title))
        };
        command.args(GROUPS.iter().flat_map(args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |row: &'static SettingRow| {
            let values = row.flag.and_then(|flag| matches.get_many::<String>(flag));
            values.into_iter().flatten().map(move |value| (row, value.clone()))
        };
        Ok(Self(settings().flat_map(values).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
