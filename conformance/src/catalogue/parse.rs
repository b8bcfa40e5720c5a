//! Reads cases from text.

use std::mem;

use zoolet_proto::{ErrorCode, EventType};

use crate::catalogue::case::{Action, Case, Profile, Setting, Step};
use crate::catalogue::coherence::Coherence;
use crate::catalogue::lex::{Cursor, Token};
use crate::catalogue::pattern::{Pattern, Patterns};
use crate::catalogue::request::Draft;
use crate::error::SyntaxError;
use crate::wire::acl;
use crate::wire::fields::field_names;

/// Reads the cases of a file.
pub(crate) fn cases(file: &str, text: &str) -> Result<Vec<Case>, SyntaxError> {
    let mut cases: Vec<Case> = Vec::new();
    // Of the last case: the number of its first line, and what its lines owe each other.
    let (mut begun, mut coherence) = (0, Coherence::default());
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let mut line = line.trim_end().to_owned();
        // An indented line goes on with the one before.
        while let Some((_, more)) = lines.next_if(|(_, more)| more.starts_with(' ')) {
            line.push(' ');
            line.push_str(more.trim());
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fail = |reason| SyntaxError { file: file.to_owned(), line: at + 1, reason };
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        if word == "case" {
            if !rest.contains('/') || rest.contains(' ') {
                return Err(fail(format!(
                    "`{rest}` is not the name of a case; one is group/what-it-is-about"
                )));
            }
            if cases.iter().any(|case| case.name == rest) {
                return Err(fail(format!("there is a case {rest} already")));
            }
            end(file, begun, cases.last(), mem::take(&mut coherence))?;
            begun = at + 1;
            cases.push(Case {
                name: rest.to_owned(),
                fact: String::new(),
                profiles: Profile::ALL.to_vec(),
                with: Vec::new(),
                without: Vec::new(),
                deviates: None,
                steps: Vec::new(),
            });
            continue;
        }
        let Some(case) = cases.last_mut() else {
            return Err(fail("a file begins with `case`, and the name of the first case".to_owned()));
        };
        match word {
            "fact" => rest.clone_into(&mut case.fact),
            "only" => {
                let profiles: Result<_, _> = rest.split_whitespace().map(str::parse).collect();
                case.profiles = profiles.map_err(fail)?;
            }
            "with" => case.with = settings(rest).map_err(fail)?,
            "without" => case.without = settings(rest).map_err(fail)?,
            "deviates" => case.deviates = Some(rest.to_owned()),
            _ => {
                let step = step(&line).map_err(fail)?;
                coherence.step(&step).map_err(fail)?;
                case.steps.push(step);
            }
        }
    }
    end(file, begun, cases.last(), coherence)?;
    Ok(cases)
}

/// Ends a case, which begins in that line.
fn end(file: &str, line: usize, case: Option<&Case>, coherence: Coherence) -> Result<(), SyntaxError> {
    let Some(Case { name, fact, steps, .. }) = case else { return Ok(()) };
    let checked = if fact.is_empty() {
        Err("it has no `fact`".to_owned())
    } else if steps.is_empty() {
        Err("it does nothing".to_owned())
    } else {
        coherence.end()
    };
    checked.map_err(|reason| SyntaxError {
        file: file.to_owned(),
        line,
        reason: format!("case {name}: {reason}"),
    })
}

fn settings(names: &str) -> Result<Vec<Setting>, String> {
    names.split_whitespace().map(str::parse).collect()
}

fn step(line: &str) -> Result<Step, String> {
    let (text, mut cursor) = (line.to_owned(), Cursor::new(line)?);
    let word = cursor.word("the name of a connection")?;
    let letter = word.parse().ok().filter(char::is_ascii_uppercase);
    let session = letter.ok_or_else(|| {
        format!(
            "`{word}` is neither a connection (one letter, A to Z) nor case, fact, only, with, without or deviates"
        )
    })?;
    let action = match cursor.word("what the connection does")?.as_str() {
        "reply" => Action::Reply(patterns(&mut cursor)?),
        "event" => Action::Event(event(&mut cursor)?),
        "open" => {
            let draft = Draft::handshake(&mut cursor)?;
            Action::Open(draft, expected(&mut cursor)?)
        }
        "send" => Action::Send(Draft::parse(&mut cursor)?, None),
        "bytes" => Action::Bytes(cursor.text("bytes in quotes")?),
        "quiet" => Action::Quiet,
        "drop" => Action::Drop,
        "ended" => Action::Ended,
        operation => {
            let draft = Draft::of_operation(operation, &mut cursor)?;
            Action::Send(draft, Some(expected(&mut cursor)?))
        }
    };
    match cursor.peek() {
        None => Ok(Step { text, session, action }),
        Some(left) => Err(format!("{left} and what follows is too much")),
    }
}

/// `-> ok path=~/n`, or success if it is not there.
fn expected(cursor: &mut Cursor) -> Result<Patterns, String> {
    if cursor.take_token(&Token::Arrow) { patterns(cursor) } else { Ok(Patterns::ok()) }
}

/// `ok path=~/n`: the result, and fields.
fn patterns(cursor: &mut Cursor) -> Result<Patterns, String> {
    let result = cursor.word("`ok` or the name of an error")?;
    let is_known = ["ok", "undone", "refused", "ended"].contains(&result.as_str())
        || ErrorCode::NAMED.iter().any(|code| format!("{code:?}") == result);
    if !is_known {
        let known: Vec<_> = ErrorCode::NAMED.iter().map(|code| format!("{code:?}")).collect();
        return Err(format!("`{result}` is not a result; known are ok and {}", known.join(", ")));
    }
    let mut patterns = vec![("result".to_owned(), Pattern::Word(result))];
    if cursor.take_sign('{') {
        let mut results = Vec::new();
        while !cursor.take_sign('}') {
            results.push(self::patterns(cursor)?);
            cursor.take_sign(';');
        }
        patterns.push(("results".to_owned(), Pattern::Results(results)));
    }
    patterns.extend(reply_fields(cursor)?);
    Ok(Patterns(patterns))
}

/// `NodeCreated ~/n zxid=$c`
fn event(cursor: &mut Cursor) -> Result<Patterns, String> {
    let kind = cursor.word("the type of an event")?;
    if !EventType::ALL.iter().any(|known| format!("{known:?}") == kind) {
        let known: Vec<_> = EventType::ALL.iter().map(|known| format!("{known:?}")).collect();
        return Err(format!("`{kind}` is not the type of an event; known are {}", known.join(", ")));
    }
    let path = Pattern::Text(cursor.word_or_text("a path")?);
    let mut patterns = vec![("result".to_owned(), Pattern::Word(kind)), ("path".to_owned(), path)];
    patterns.extend(reply_fields(cursor)?);
    Ok(Patterns(patterns))
}

/// Fields of what a server sends.
fn reply_fields(cursor: &mut Cursor) -> Result<Vec<(String, Pattern)>, String> {
    let (known, mut fields) = (field_names(), Vec::new());
    while let Some(name) = cursor.key() {
        if !known.contains(&name.as_str()) {
            return Err(format!("no reply and no event has `{name}`; known are {}", known.join(", ")));
        }
        let pattern = pattern(cursor)?;
        if let ("acl", Pattern::List(entries)) = (name.as_str(), &pattern) {
            entries.iter().try_for_each(|entry| acl::parse(entry).map(drop))?;
        }
        fields.push((name, pattern));
    }
    Ok(fields)
}

fn pattern(cursor: &mut Cursor) -> Result<Pattern, String> {
    match cursor.peek() {
        Some(Token::Sign('[')) => cursor.list().map(Pattern::List),
        Some(Token::Text(_)) => cursor.text("a text").map(Pattern::Text),
        _ => {
            let word = cursor.word("a value")?;
            Ok(match (word.strip_prefix('$'), word.strip_prefix(">$")) {
                (Some(name), _) => Pattern::Named(name.to_owned()),
                (_, Some(name)) => Pattern::Above(name.to_owned()),
                _ => Pattern::Word(word),
            })
        }
    }
}
