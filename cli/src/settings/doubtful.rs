//! Names of directories that are legal, and most likely not what is meant: a new directory would be created.

use std::path::Path;

use crate::text::quoted;

/// Why this name of a directory deserves a warning, if it does. `key` is what sets it.
pub(crate) fn directory(key: &str, dir: &Path) -> Option<String> {
    let text = dir.to_string_lossy();
    why(&text).map(|why| message(key, dir, why))
}

/// The same for a name in a file, where a relative one is unusual as well. ZooKeeper too takes `./` for a sign that it is meant.
pub(crate) fn directory_of_file(key: &str, dir: &Path) -> Option<String> {
    let is_meant = dir.is_absolute() || [".", ".."].iter().any(|parent| dir.starts_with(parent));
    let relative = (!is_meant).then(|| message(key, dir, "it is relative to the current directory"));
    directory(key, dir).or(relative)
}

fn message(key: &str, dir: &Path, why: &str) -> String {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    format!("{key} = {}: {why}; the directory is {}", quoted(&dir.to_string_lossy()), absolute.display())
}

fn why(text: &str) -> Option<&'static str> {
    let is_drive =
        text.as_bytes().get(1) == Some(&b':') && text.starts_with(|first: char| first.is_ascii_alphabetic());
    let quotes = ['"', '\''];
    if text.starts_with(quotes) || text.ends_with(quotes) {
        Some("quotes are a part of the name")
    } else if text.contains('$') || text.matches('%').count() > 1 {
        Some("variables are not replaced")
    } else if text.starts_with('~') {
        Some("~ is not replaced by the home directory")
    } else if cfg!(not(windows)) && (is_drive || text.contains('\\')) {
        Some("this looks like a path of Windows")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_most_likely_not_meant_are_explained() {
        for (name, why) in [
            ("\"/var/zk\"", "quotes are a part of the name"),
            ("'/var/zk'", "quotes are a part of the name"),
            ("${ZK_HOME}/data", "variables are not replaced"),
            ("/var/$NAME", "variables are not replaced"),
            ("%APPDATA%/zk", "variables are not replaced"),
            ("~/zk", "~ is not replaced by the home directory"),
            ("C:/zk", "this looks like a path of Windows"),
            ("C:zk", "this looks like a path of Windows"),
        ] {
            let warning = directory("dataDir", Path::new(name)).unwrap();
            assert!(warning.contains(why), "{warning}");
        }
        for name in ["/var/zk", "data", "./data", "/var/a~b", "/var/o'brien", "/var/100%"] {
            assert_eq!(directory("dataDir", Path::new(name)), None);
        }
    }

    #[test]
    fn a_relative_name_in_a_file_is_explained_unless_it_says_that_it_is_meant() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            directory_of_file("dataDir", Path::new("data")).unwrap(),
            format!(
                "dataDir = data: it is relative to the current directory; the directory is {}",
                here.join("data").display()
            )
        );
        for name in ["./data", "../data", "/data"] {
            assert_eq!(directory_of_file("dataDir", Path::new(name)), None);
        }
    }
}
