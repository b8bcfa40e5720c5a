//! [`JsonWriter`]: JSON in the layout of Apache's admin server, which is Jackson's: `"k" : v`, two blanks a level, `[ a, b ]`.
//!
//! Values are written one by one, so that a long list can be made in steps.

use std::fmt::{Display, Write as _};

/// Writes one object. Every value in an object comes after its [`key`](Self::key).
#[derive(Debug)]
pub(super) struct JsonWriter {
    text: String,
    /// What is open, outermost first.
    open: Vec<Open>,
    after_key: bool,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    is_array: bool,
    is_empty: bool,
}

impl JsonWriter {
    /// Begins the outermost object.
    pub(super) fn new() -> Self {
        let mut json = Self { text: String::new(), open: Vec::new(), after_key: false };
        json.object();
        json
    }

    /// Ends it.
    pub(super) fn finish(mut self) -> String {
        self.end();
        debug_assert!(self.open.is_empty(), "{}", self.text);
        self.text
    }

    pub(super) fn key(&mut self, key: &str) -> &mut Self {
        self.separate();
        self.quoted(key);
        self.text.push_str(" : ");
        self.after_key = true;
        self
    }

    pub(super) fn string(&mut self, value: &str) {
        self.begin_value();
        self.quoted(value);
    }

    /// A number, `true`, `false` or `null`, as it is printed.
    pub(super) fn plain(&mut self, value: impl Display) {
        self.begin_value();
        // A string takes everything.
        let _ = write!(self.text, "{value}");
    }

    pub(super) fn null(&mut self) {
        self.plain("null");
    }

    pub(super) fn object(&mut self) {
        self.begin_value();
        self.text.push('{');
        self.open.push(Open { is_array: false, is_empty: true });
    }

    pub(super) fn array(&mut self) {
        self.begin_value();
        self.text.push('[');
        self.open.push(Open { is_array: true, is_empty: true });
    }

    /// Ends the innermost object or array.
    pub(super) fn end(&mut self) {
        let Some(open) = self.open.pop() else { return };
        match open {
            Open { is_array: true, .. } => self.text.push_str(" ]"),
            Open { is_empty: true, .. } => self.text.push_str(" }"),
            Open { .. } => {
                self.new_line();
                self.text.push('}');
            }
        }
    }

    fn begin_value(&mut self) {
        if !std::mem::take(&mut self.after_key) {
            self.separate();
        }
    }

    /// Comes before a key of an object and before a value of an array.
    fn separate(&mut self) {
        let Some(open) = self.open.last_mut() else { return };
        let Open { is_array, is_empty } = *open;
        open.is_empty = false;
        if !is_empty {
            self.text.push(',');
        }
        if is_array { self.text.push(' ') } else { self.new_line() }
    }

    /// Arrays do not indent what is in them.
    fn new_line(&mut self) {
        self.text.push('\n');
        let depth = self.open.iter().filter(|open| !open.is_array).count();
        (0..depth).for_each(|_| self.text.push_str("  "));
    }

    fn quoted(&mut self, value: &str) {
        self.text.push('"');
        let mut rest = value;
        while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
            self.text.push_str(&rest[..at]);
            let escaped = rest.as_bytes()[at];
            match escaped {
                b'"' => self.text.push_str("\\\""),
                b'\\' => self.text.push_str("\\\\"),
                b'\n' => self.text.push_str("\\n"),
                b'\r' => self.text.push_str("\\r"),
                b'\t' => self.text.push_str("\\t"),
                0x08 => self.text.push_str("\\b"),
                0x0c => self.text.push_str("\\f"),
                other => {
                    let _ = write!(self.text, "\\u{other:04X}");
                }
            }
            rest = &rest[at + 1..];
        }
        self.text.push_str(rest);
        self.text.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_as_jackson_makes_it() {
        let mut json = JsonWriter::new();
        json.key("connections").array();
        for port in [1, 2] {
            json.object();
            json.key("port").plain(port);
            json.key("last").null();
            json.end();
        }
        json.end();
        json.key("ids").object();
        json.key("1000").array();
        json.plain(7);
        json.plain(8);
        json.end();
        json.end();
        json.key("none").array();
        json.end();
        json.key("nothing").object();
        json.end();
        json.key("text \"q\"").string("a\\b\n\t\u{1}\u{1f}/ü\u{7f}");
        let expected = "{\n  \"connections\" : [ {\n    \"port\" : 1,\n    \"last\" : null\n  }, {\n    \"port\" : 2,\n    \
                        \"last\" : null\n  } ],\n  \"ids\" : {\n    \"1000\" : [ 7, 8 ]\n  },\n  \"none\" : [ ],\n  \
                        \"nothing\" : { },\n  \"text \\\"q\\\"\" : \"a\\\\b\\n\\t\\u0001\\u001F/ü\u{7f}\"\n}";
        assert_eq!(json.finish(), expected);
    }
}
