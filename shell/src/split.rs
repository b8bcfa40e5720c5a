//! The words of a line.
//!
//! As in zkCli, quotes mean something only around a whole word, so that JSON can be typed as it is: `set /a {"b":1}`. A backslash keeps
//! a blank in its word and a quote at the start from being one, and is itself everywhere else.

/// The words of a line; `None` if a quote is open at its end.
pub(crate) fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return Some(words);
        }
        let mut word = String::new();
        if let Some(quote) = chars.next_if(|c| is_quote(*c)) {
            loop {
                match chars.next()? {
                    c if c == quote => break,
                    '\\' if quote == '"' => match chars.next_if(|c| matches!(c, '"' | '\\')) {
                        Some(c) => word.push(c),
                        None => word.push('\\'),
                    },
                    c => word.push(c),
                }
            }
        }
        while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
            let at_start = word.is_empty();
            let kept = |next: &char| c == '\\' && (next.is_whitespace() || at_start && is_quote(*next));
            word.push(chars.next_if(kept).unwrap_or(c));
        }
        words.push(word);
    }
}

/// Where the word at the end of a line begins.
pub(crate) fn last_begins(line: &str) -> usize {
    let mut begin = 0;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if c.is_whitespace() && before != '\\' {
            begin = at + c.len_utf8();
        }
        before = c;
    }
    begin
}

/// A word as it is typed without quotes.
pub(crate) fn escape(word: &str) -> String {
    let mut typed = String::new();
    for c in word.chars() {
        if c.is_whitespace() || typed.is_empty() && is_quote(c) {
            typed.push('\\');
        }
        typed.push(c);
    }
    typed
}

fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_what_was_typed_and_quotes_are_around_whole_words() {
        for (line, expected) in [
            (r#"set /a {"host":"db1","x":"a\"b"}"#, &["set", "/a", r#"{"host":"db1","x":"a\"b"}"#][..]),
            (r"set /a C:\temp\new", &["set", "/a", r"C:\temp\new"]),
            ("set /a #ffeedd it's", &["set", "/a", "#ffeedd", "it's"]),
            (
                r#"set /a '{"b": "it is"}' "" "say \"x\" \n""#,
                &["set", "/a", r#"{"b": "it is"}"#, "", r#"say "x" \n"#],
            ),
            (r#"get /a\ b \"c"#, &["get", "/a b", "\"c"]),
            ("  ", &[]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        assert_eq!(words("get '/a"), None);
    }

    #[test]
    fn an_escaped_word_is_one_word() {
        for name in ["/a b/'c' #", "'a'", r"a\ b", "\"x"] {
            let line = format!("get {}", escape(name));
            assert_eq!(last_begins(&line), 4);
            assert_eq!(words(&line).unwrap(), ["get", name]);
        }
        assert_eq!(last_begins("get /a "), 7);
    }
}
