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
        let _ = write!(page, "\n## {title}\n\n| flag | `zoo.cfg` | default | |\n| --- | --- | --- | --- |\n");
        for row in *rows {
            let _ = writeln!(page, "{}", line(row));
        }
    }
    page
}

fn line(row: &SettingRow) -> String {
    let flag = match (row.flag, row.takes) {
        (None, _) => String::new(),
        (Some(flag), BOOL) => format!("`--{flag}`"),
        (Some(flag), takes) => format!("`--{flag} {}`", takes.replace('|', "\\|")),
    };
    let keys = row.key.iter().chain(&row.alias);
    let keys: Vec<_> = keys.map(|key| format!("`{key}`")).collect();
    format!("| {flag} | {} | {} | {} |", keys.join(", "), row.default, row.help)
}
