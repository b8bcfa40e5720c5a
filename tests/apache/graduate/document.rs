//! The page that the test follows: its blocks of code, in order.

use std::path::Path;

/// A block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Commands for a shell.
    Shell(String),
    /// A line of a program, which the test itself executes.
    Program(String),
    /// What is in `zoo.cfg`.
    Settings(String),
}

/// A heading of the second level, and the steps below it.
type Section = (String, Vec<Step>);

/// The steps of the page, by section.
pub fn sections() -> Vec<Section> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/graduate.md");
    let text = std::fs::read_to_string(path).expect("the page");
    let mut sections: Vec<Section> = Vec::new();
    // Language and code of the block that has begun.
    let mut block: Option<(String, String)> = None;
    for line in text.lines() {
        match (&mut block, line.strip_prefix("```")) {
            (Some((_, code)), None) => *code += &format!("{line}\n"),
            (None, Some(language)) => block = Some((language.to_owned(), String::new())),
            (None, None) => {
                if let Some(heading) = line.strip_prefix("## ") {
                    sections.push((heading.to_owned(), Vec::new()));
                }
            }
            (Some(_), Some(_)) => {
                let (language, code) = block.take().expect("a block that has begun");
                let step = match &*language {
                    "sh" => Step::Shell(code),
                    "rust" => Step::Program(code),
                    "properties" => Step::Settings(code),
                    // Output that is shown.
                    "text" => continue,
                    other => panic!("nobody executes {other}"),
                };
                sections.last_mut().expect("a heading before the first block").1.push(step);
            }
        }
    }
    sections
}
