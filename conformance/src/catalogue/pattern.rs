//! [`Patterns`]: what a case says about a frame, and whether a frame is so.

use std::collections::HashMap;
use std::fmt;

use crate::wire::fields::{Fields, Value, field, quoted};

/// Values that a case has given names to.
pub(crate) type Names = HashMap<String, Value>;

/// What cases call the credentials of the super user.
pub(crate) const SUPER_NAME: &str = "super";

/// What is said of a frame: of some of its fields, by name.
#[derive(Debug, Clone)]
pub(crate) struct Patterns(pub(crate) Vec<(String, Pattern)>);

/// What is said of one field.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// It is this text, number or name.
    Word(String),
    /// It is these bytes, or this text.
    Text(Vec<u8>),
    /// Names the value if there is none of that name, or else the value is that one.
    Named(String),
    /// The value is larger than that of this name.
    Above(String),
    /// It has these texts.
    List(Vec<Vec<u8>>),
    /// It has these results, one after the other.
    Results(Vec<Patterns>),
}

impl Patterns {
    /// It has succeeded.
    pub(crate) fn ok() -> Self {
        Self(vec![("result".to_owned(), Pattern::Word("ok".to_owned()))])
    }

    /// Compares a frame. Fails with what is wrong.
    pub(crate) fn check(&self, fields: &Fields, names: &mut Names) -> Result<(), String> {
        for (name, pattern) in &self.0 {
            let value = field(fields, name).ok_or_else(|| format!("it has no {name}"))?;
            pattern.check(value, names).map_err(|wrong| match name.as_str() {
                "result" => wrong,
                name => format!("{name} {wrong}"),
            })?;
        }
        Ok(())
    }
}

impl Pattern {
    fn check(&self, value: &Value, names: &mut Names) -> Result<(), String> {
        let (fits, wanted) = match (self, value) {
            (Self::Named(name), value) => match names.get(name) {
                None => {
                    names.insert(name.clone(), value.clone());
                    (true, String::new())
                }
                Some(known) => (known == value, format!("${name}, which is {known}")),
            },
            (Self::Above(name), Value::Int(number)) => match names.get(name) {
                Some(Value::Int(known)) => (number > known, format!("more than ${name}, which is {known}")),
                _ => (false, format!("more than ${name}, which no step before has named")),
            },
            (Self::Word(word), Value::Int(number)) => (word.parse() == Ok(*number), word.clone()),
            (Self::Word(word), Value::Text(text)) => (word == text, word.clone()),
            (Self::Word(word), Value::Data(data)) => (word == "null" && data.is_none(), word.clone()),
            (Self::Text(bytes), Value::Data(data)) => (data.as_deref() == Some(bytes), quoted(bytes)),
            (Self::Text(bytes), Value::Text(text)) => (text.as_bytes() == bytes, quoted(bytes)),
            (Self::List(wanted), Value::List(texts)) => (*wanted == bytes(texts), list(wanted)),
            (Self::List(wanted), Value::Set(texts)) => {
                let (mut sorted, mut texts) = (wanted.clone(), bytes(texts));
                sorted.sort();
                texts.sort();
                (texts == sorted, format!("{} in any order", list(wanted)))
            }
            (Self::Results(wanted), Value::Results(results)) => {
                for (at, (wanted, result)) in wanted.iter().zip(results).enumerate() {
                    wanted.check(result, names).map_err(|wrong| format!("number {}: {wrong}", at + 1))?;
                }
                (wanted.len() == results.len(), format!("{} of them", wanted.len()))
            }
            (pattern, _) => (false, pattern.to_string()),
        };
        if fits { Ok(()) } else { Err(format!("is {value}, not {wanted}")) }
    }
}

/// As a case writes it.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Named(name) => write!(f, "${name}"),
            Self::Above(name) => write!(f, ">${name}"),
            Self::List(texts) => f.write_str(&list(texts)),
            Self::Results(results) => write!(f, "{} results", results.len()),
        }
    }
}

fn bytes(texts: &[String]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn list(texts: &[Vec<u8>]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn word(text: &str) -> Pattern {
        Pattern::Word(text.to_owned())
    }

    fn text(text: &str) -> Pattern {
        Pattern::Text(text.as_bytes().to_vec())
    }

    fn list(texts: &[&str]) -> Pattern {
        Pattern::List(texts.iter().map(|text| text.as_bytes().to_vec()).collect())
    }

    fn results(words: &[&str]) -> Pattern {
        let result = |name: &&str| Patterns(vec![("result".to_owned(), word(name))]);
        Pattern::Results(words.iter().map(result).collect())
    }

    fn int(number: i64) -> Value {
        Value::Int(number)
    }

    fn data(text: &'static str) -> Value {
        Value::Data(Some(Bytes::from_static(text.as_bytes())))
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    fn came(words: &[&str]) -> Value {
        Value::Results(words.iter().map(|&name| vec![("result", Value::Text(name.to_owned()))]).collect())
    }

    /// `$z` is 5, and `$p` is the data "p".
    fn fits(pattern: &Pattern, value: &Value) -> Result<(), String> {
        let mut names = Names::from([("z".to_owned(), int(5)), ("p".to_owned(), data("p"))]);
        pattern.check(value, &mut names)
    }

    #[test]
    fn each_kind_of_pattern_fits_what_it_says_and_nothing_else() {
        let named = |name: &str| Pattern::Named(name.to_owned());
        let above = |name: &str| Pattern::Above(name.to_owned());
        let good = Value::Text("ok".to_owned());
        #[rustfmt::skip]
        let table = [
            (word("3"), int(3), true), (word("3"), int(4), false), (word("x"), int(3), false),
            (word("ok"), good.clone(), true), (word("NoNode"), good.clone(), false), (word("o"), good.clone(), false),
            (word("null"), Value::Data(None), true), (word("null"), data(""), false), (word("x"), Value::Data(None), false),
            (text("a"), data("a"), true), (text("a"), data("b"), false), (text("a"), data("ab"), false), (text(""), data(""), true), (text(""), Value::Data(None), false),
            (text("ok"), good.clone(), true), (text("o"), good.clone(), false), (text("5"), int(5), false),
            (named("z"), int(5), true), (named("z"), int(6), false), (named("z"), int(4), false), (named("z"), data("5"), false),
            (named("p"), data("p"), true), (named("p"), data("q"), false), (named("p"), Value::Data(None), false),
            (above("z"), int(6), true), (above("z"), int(5), false), (above("z"), int(4), false), (above("z"), data("6"), false),
            (above("p"), int(6), false), (above("new"), int(6), false),
            (list(&["a", "b"]), Value::List(texts(&["a", "b"])), true), (list(&["a", "b"]), Value::List(texts(&["b", "a"])), false),
            (list(&["a", "b"]), Value::List(texts(&["a"])), false), (list(&["a"]), Value::List(texts(&["a", "b"])), false), (list(&[]), Value::List(texts(&[])), true),
            (list(&["a", "b"]), Value::Set(texts(&["b", "a"])), true), (list(&["a", "b"]), Value::Set(texts(&["a"])), false),
            (list(&["a"]), Value::Set(texts(&["a", "b"])), false), (list(&["a", "a", "b"]), Value::Set(texts(&["a", "b", "b"])), false), (list(&[]), Value::Set(texts(&["a"])), false),
            (list(&["a"]), data("a"), false),
            (results(&["ok", "NoNode"]), came(&["ok", "NoNode"]), true), (results(&["ok", "NoNode"]), came(&["ok", "ok"]), false),
            (results(&["ok", "ok"]), came(&["ok"]), false), (results(&["ok"]), came(&["ok", "ok"]), false), (results(&[]), came(&["ok"]), false), (results(&["ok"]), came(&[]), false),
            (results(&["ok"]), good, false),
        ];
        for (pattern, value, expected) in &table {
            assert_eq!(fits(pattern, value).is_ok(), *expected, "{pattern:?} and {value}");
        }
    }

    #[test]
    fn a_new_name_fits_everything_once_and_is_that_value_from_then_on() {
        let mut names = Names::new();
        let named = Pattern::Named("new".to_owned());
        assert_eq!(named.check(&int(7), &mut names), Ok(()));
        assert_eq!(named.check(&int(7), &mut names), Ok(()));
        assert_eq!(named.check(&int(8), &mut names), Err("is 8, not $new, which is 7".to_owned()));
        assert_eq!(names["new"], int(7));
    }

    #[test]
    fn each_field_that_a_line_names_is_compared_and_no_other() {
        let fields: Fields =
            vec![("result", Value::Text("ok".to_owned())), ("zxid", int(5)), ("version", int(2))];
        let check = |wanted: &[(&str, &str)]| {
            let wanted = wanted.iter().map(|(name, value)| ((*name).to_owned(), word(value))).collect();
            Patterns(wanted).check(&fields, &mut Names::new())
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[("result", "ok"), ("version", "2")]), Ok(()));
        assert_eq!(check(&[("result", "ok"), ("version", "3")]), Err("version is 2, not 3".to_owned()));
        assert_eq!(check(&[("version", "3"), ("result", "ok")]), Err("version is 2, not 3".to_owned()));
        assert_eq!(check(&[("result", "NoNode")]), Err("is ok, not NoNode".to_owned()));
        assert_eq!(check(&[("path", "/a")]), Err("it has no path".to_owned()));
    }
}
