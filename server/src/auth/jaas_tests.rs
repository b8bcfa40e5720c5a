//! JAAS files, read as OpenJDK 17 reads them: it answers each of these so, but for a quote that is not closed, which ends there at the
//! end of its line.

use zoolet_proto::digest_md5::UserKey;

use super::*;

const MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule required";

/// A file whose only section has these options.
fn file(options: &str) -> String {
    format!("Server {{\n{MODULE}\n{options};\n}};\n")
}

/// The sorted names in section `Server`.
fn names(text: &str) -> Result<Vec<String>, String> {
    let users = SaslUsers::from_jaas(text, "Server").map_err(|error| error.to_string())?;
    let mut names: Vec<_> = users.expect("a section Server").names().map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

/// Whether the only user is `u` with this password.
fn has_password(options: &str, password: &str) -> bool {
    let users = SaslUsers::from_jaas(&file(options), "Server").unwrap().unwrap();
    users.into_keys().get("u") == Some(&UserKey::new("u", password))
}

fn error(text: &str) -> String {
    SaslUsers::from_jaas(text, "Server").expect_err(text).to_string()
}

#[test]
fn the_users_are_those_of_every_module_of_the_section() {
    let text = r#"
        // A comment, and /* another */ one
        Client { any.Module optional username="bob" password="x"; };
        Server {
            org.apache.zookeeper.server.auth.DigestLoginModule required
                user_super="adminsecret" /* between
                options */ user_bob = "bobsecret"
                debug=true;
            shaded.DigestLoginModule Sufficient "user_quoted"="x" user_b-1.$_*=word;
        };
        KafkaServer { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; };
    "#;
    assert_eq!(names(text), Ok(["b-1.$_*", "bob", "quoted", "super"].map(String::from).to_vec()));
    assert!(SaslUsers::from_jaas(text, "Other").unwrap().is_none());
    assert!(SaslUsers::from_jaas("", "Server").unwrap().is_none());
    let client = SaslUsers::from_jaas(&text.replace("Server", "Serve"), "Server").unwrap();
    assert!(client.is_none());
    assert_eq!(names("Server { };"), Ok(vec![]));
    assert_eq!(names(&format!("\"Server\" {{ {MODULE}; }} ;")), Ok(vec![]));
}

#[test]
fn passwords_are_those_that_a_jvm_sees() {
    for (written, password) in [
        (r#""simple""#, "simple"),
        ("word", "word"),
        ("wörd1.5-x", "wörd1.5-x"),
        (r#""""#, ""),
        (r#""with \"quotes\" and \\""#, "with \"quotes\" and \\"),
        (r#""// no comment /* either */ # ; { } =""#, "// no comment /* either */ # ; { } ="),
        (r#""\t\n\r\a\b\f\v\q""#, "\t\n\r\u{7}\u{8}\u{c}\u{b}q"),
        (r#""\101\1018\7\377\400""#, "AA8\u{7}\u{ff} 0"),
        ("\"日本 pä\"", "日本 pä"),
        ("\"$ { $x {y}\"", "$ { $x {y}"),
        ("\"open ${ only\"", "open ${ only"),
    ] {
        assert!(has_password(&format!("user_u={written}"), password), "{written}");
    }
    assert!(has_password("user_u=one user_u=two", "two"), "the last one counts");
    assert!(has_password("user_u=one // password=\"commented\"\n", "one"));
    assert!(has_password("user_u=one / a single slash, too\n", "one"));
    assert!(
        has_password("user_u=one /\nuser_u=\"the next line too\"\n", "one"),
        "an oddity of StreamTokenizer"
    );
    assert!(!has_password("user_u=one", "two"));
}

#[test]
fn an_error_names_the_line_and_no_value() {
    for (text, expected) in [
        ("Server", "line 1: expected '{', but the file ends"),
        ("Server {", "line 1: expected the class of a module, but the file ends"),
        ("{", "line 1: expected the name of a section"),
        ("Server { a.DigestLoginModule };", "expected required, requisite, sufficient or optional"),
        ("Server {\n a.DigestLoginModule maybe; };", "line 2: expected one of required, requisite"),
        (&file("user_u"), "line 3: expected '='"),
        (&file("user_u="), "line 3: expected a value"),
        (
            &file("user_u=123secret"),
            "line 3: expected a value, in quotes unless it has letters only: what begins with a digit must be in quotes",
        ),
        (&file("user_u=-1"), "must be in quotes"),
        (&file("user_u='secret'"), "line 3: expected a value"),
        (&file("user_u=\"secret\nuser_v=\"x\""), "line 3: a quote is not closed"),
        (&file("user_u=\"secret\\"), "line 3: a quote is not closed"),
        (&file("user_u=sec#ret"), "line 3: expected an option, or a semicolon"),
        (&file("user_u=\"a${user.home}b\""), "line 3: ${...} in a password"),
        (&format!("Server {{ {MODULE} user_u=secret }};"), "line 1: expected an option, or a semicolon"),
        (&format!("Server {{ {MODULE}; }}"), "line 1: expected ';', but the file ends"),
        (&format!("/* {}", file("")), ""),
        (
            "Server {\n com.sun.security.auth.module.Krb5LoginModule required; };",
            "line 2: Kerberos is not supported",
        ),
        ("Server {\n\n a.PlainLoginModule required; };", "line 3: not a known module"),
        (&format!("{}{}", file(""), file("")), "line 5: a second section of the same name"),
        (&" ".repeat(MAX_LEN + 1), "the file is longer than"),
    ] {
        if expected.is_empty() {
            assert!(SaslUsers::from_jaas(text, "Server").unwrap().is_none(), "{text}");
            continue;
        }
        let error = error(text);
        assert!(error.contains(expected), "{text}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn a_property_of_a_jvm_is_refused_only_where_it_matters() {
    assert_eq!(names(&file("keyTab=\"${user.home}/key\" user_u=x")), Ok(vec!["u".to_owned()]));
    let other = file("user_u=\"${a}\"").replace("Server", "Other");
    assert!(SaslUsers::from_jaas(&other, "Server").unwrap().is_none());
}

#[test]
fn the_super_password_replaces_that_of_an_existing_user_super_only() {
    let with = SaslUsers::new().user("super", "old").super_password("new").into_keys();
    assert_eq!(with.get("super"), Some(&UserKey::new("super", "new")));
    assert!(!SaslUsers::new().user("bob", "x").super_password("new").into_keys().contains_key("super"));
}

#[test]
fn users_and_passwords_stay_out_of_debug_output() {
    let users = SaslUsers::new().user("bob", "secret");
    let shown = format!("{users:?} {:?}", crate::Server::builder().sasl(users.clone()));
    assert!(shown.contains("users: 1"), "{shown}");
    assert!(!shown.contains("bob") && !shown.contains("secret:") && !shown.contains("\"secret"), "{shown}");
}
