//! [`Patterns`]: what a case says about a frame, and whether a frame is so.

use std::collections::HashMap;
use std::fmt;

use crate::fields::{Fields, Value};
use crate::lex::quoted;

/// Values that a case has given names to.
pub(crate) type Names = HashMap<String, Value>;

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
            let Some((_, value)) = fields.iter().find(|(field, _)| field == name) else {
                return Err(format!("it has no {name}"));
            };
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
