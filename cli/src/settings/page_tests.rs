//! `docs/settings.md` has what the table has.

use std::fmt::Write as _;
use std::path::Path;

use super::table::{BOOL, GROUPS, SettingGroup, SettingRow};

const HEAD: &str = "\
# Settings of `zoolet serve`

<!-- Written by `ZOOLET_BLESS=1 cargo test -p zoolet-cli settings::page_tests` from `cli/src/settings/table/`. -->

A flag takes precedence over the file of `--config`, a `zoo.cfg`. In a `zoo.cfg`, times are in milliseconds and sizes in KiB, `forceSync`
and `skipACL` are `yes` or `no`, and each key may also be written with `zookeeper.` before it, as Java system properties are.
A flag without a value, such as `--skip-acl`, also takes `=false`.
`--config`, `--in-memory`, `--super-digest-file`, `--log` and `--log-format` are flags only; `zoolet serve --help` has them.
The column of programs has the method that does the same in Rust, or the field of `StorageOptions`.
[operating.md](operating.md#settings) says which keys are refused or ignored, and how a server is secured and watched.
";

#[test]
fn the_page_of_settings_has_what_the_table_has() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    let page = page();
    if std::env::var_os("ZOOLET_BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    // A published crate has no documents beside it.
    if file.parent().is_some_and(Path::is_dir) {
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        let command = "ZOOLET_BLESS=1 cargo test -p zoolet-cli settings::page_tests";
        assert!(written == page, "docs/settings.md differs from the table; `{command}` writes it");
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for SettingGroup { title, rows, .. } in GROUPS {
        let _ = write!(
            page,
            "\n## {title}\n\n| flag | `zoo.cfg` | programs | default | |\n| --- | --- | --- | --- | --- |\n"
        );
        for row in *rows {
            let _ = writeln!(page, "{}", line(row));
        }
    }
    page
}

fn line(row: &SettingRow) -> String {
    let takes = row.takes.replace('|', "\\|");
    let flag = match row.flag {
        None => String::new(),
        Some(flag) if row.takes == BOOL => format!("`--{flag}`"),
        Some(flag) => format!("`--{flag} {takes}`"),
    };
    let value = if row.flag.is_none() { format!("={takes}") } else { String::new() };
    let keys = row.key.iter().chain(&row.alias).map(|key| format!("`{key}{value}`"));
    let keys: Vec<_> = keys.collect();
    let builder = if row.builder.is_empty() { String::new() } else { format!("`{}`", row.builder) };
    format!("| {flag} | {} | {builder} | {} | {} |", keys.join(", "), row.default, row.help)
}
