//! Captured exchanges of real servers and clients, and what a real server accepts.

use super::*;

const NONCE: &str = "7ltqz44Y/VAjbFxQEG2mTBjDLkKfq4yI+QIYvQbc";
/// What a Java client sent.
const JAVA: &str = r#"charset=utf-8,username="bob",realm="zk-sasl-md5",nonce="7ltqz44Y/VAjbFxQEG2mTBjDLkKfq4yI+QIYvQbc",nc=00000001,cnonce="zCQzqOoidt4pDMdBwxql6nPCdmbpMF5WRYsoUJwJ",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=5d0921a7597c0e79483d9156df5412f7,qop=auth,authzid="bob""#;
/// What kazoo sent, to another challenge.
const KAZOO: &str = r#"qop=auth,realm="zk-sasl-md5",username="bob",nonce="esnMlZ13pIYcLzSADXyCiWl1ToocvH4XxHUOudlu",cnonce="4000685436286582",nc=00000001,digest-uri="zookeeper/zk-sasl-md5",response=289fbccbdeba86620e4d0d9cd52ea697"#;

fn users(name: &str) -> Option<UserKey> {
    let passwords =
        [("bob", "bobsecret"), ("al", "pä"), ("jp", "日本"), ("böb", "pä"), ("日", "pä"), ("a\"b\\", "x")];
    passwords.iter().find(|(user, _)| *user == name).map(|(user, password)| UserKey::new(user, password))
}

fn judged(token: &str) -> Result<AuthenticatedUser, DigestMd5Error> {
    judge(NONCE, token.as_bytes(), users)
}

#[test]
fn the_challenge_is_that_of_a_real_server() {
    assert_eq!(
        challenge(NONCE),
        r#"realm="zk-sasl-md5",nonce="7ltqz44Y/VAjbFxQEG2mTBjDLkKfq4yI+QIYvQbc",charset=utf-8,algorithm=md5-sess"#
    );
}

#[test]
fn captured_responses_of_java_and_kazoo_get_the_captured_confirmations() {
    let java = judged(JAVA).unwrap();
    assert_eq!((&*java.name, &*java.rspauth), ("bob", "rspauth=e3fc6510efec8e2e0116c2bbd8880ab0"));
    let kazoo = judge("esnMlZ13pIYcLzSADXyCiWl1ToocvH4XxHUOudlu", KAZOO.as_bytes(), users).unwrap();
    assert_eq!((&*kazoo.name, &*kazoo.rspauth), ("bob", "rspauth=02a869c97b05375f1fa3d6caeee93be6"));
}

#[test]
fn our_response_is_that_of_a_java_client() {
    let cnonce = "zCQzqOoidt4pDMdBwxql6nPCdmbpMF5WRYsoUJwJ";
    let response = respond(challenge(NONCE).as_bytes(), "bob", "bobsecret", cnonce).unwrap();
    assert_eq!(std::str::from_utf8(response.token()).unwrap(), JAVA);
    assert!(response.is_confirmed_by(b"rspauth=e3fc6510efec8e2e0116c2bbd8880ab0"));
    for wrong in
        ["", "rspauth=", "rspauth=e3fc6510efec8e2e0116c2bbd8880ab1", "e3fc6510efec8e2e0116c2bbd8880ab0"]
    {
        assert!(!response.is_confirmed_by(wrong.as_bytes()), "{wrong}");
    }
}

#[test]
fn intermediate_values_are_those_of_the_captures() {
    assert_eq!(hex(UserKey::new("bob", "bobsecret").0), "fff08f480333e7694a6455b4a1d5b656");
    assert_eq!(hex(md5([b"AUTHENTICATE:", DIGEST_URI.as_bytes()])), "b4ae165cff14dad9937337f99027b6c1");
    assert_eq!(hex(md5([b":", DIGEST_URI.as_bytes()])), "345998cfddf9d6ee214e1c52f796933f");
}

/// The token of the Java client with a change, and with the response that then is right.
fn changed(from: &str, to: &str) -> String {
    assert!(JAVA.contains(from), "{from}");
    let token = JAVA.replace(from, to);
    let names = ["digest-uri", "authzid", "cnonce"];
    let given = directives::Directives::parse(token.as_bytes(), &names).unwrap_or_default();
    let key = UserKey::new("bob", "bobsecret");
    let computed = Computation {
        key: &key,
        nonce: NONCE.as_bytes(),
        cnonce: given.get("cnonce").unwrap_or_default(),
        authzid: given.get("authzid"),
        digest_uri: given.get("digest-uri").unwrap_or_default(),
    };
    token.replace("5d0921a7597c0e79483d9156df5412f7", &computed.response())
}

#[test]
fn what_a_real_server_accepts_is_accepted() {
    for (from, to) in [
        ("", ""),
        // Optional directives.
        (",qop=auth", ""),
        ("nc=00000001,", ""),
        ("nc=00000001", "nc=00000001,nc=x"),
        ("nc=00000001", "nonce-count=1"),
        (",maxbuf=65536", ""),
        ("charset=utf-8,", ""),
        (",authzid=\"bob\"", ""),
        // Quoted or not.
        ("qop=auth", "qop=\"auth\""),
        ("nc=00000001", "nc=\"00000001\""),
        ("username=\"bob\"", "username=bob"),
        ("username=\"bob\"", "username=\"b\\o\\b\""),
        ("username=\"bob\"", "USERname=\"bob\""),
        // Ignored.
        ("maxbuf=65536", "maxbuf=0"),
        ("maxbuf=65536", "maxbuf=10"),
        ("maxbuf=65536", "maxbuf=-1"),
        ("maxbuf=65536", "x="),
        ("authzid=\"bob\"", "authzid=\"bob\",x"),
        ("charset=utf-8", "charset=\"utf-8\""),
        ("maxbuf=65536", "maxbuf=99999999"),
        ("qop=auth", "qop=auth,algorithm=md5-sess,cipher=rc4,unknown=\"x\",unknown=y"),
        ("authzid=\"bob\"", "authzid=\"super\""),
        ("authzid=\"bob\"", "authzid=\"\""),
        // Blanks and commas.
        (",username=", " , \t username \r\n = "),
        ("charset", ",, ,charset"),
        ("qop=auth", "qop=auth,,"),
        ("\"zk-sasl-md5\",", "\"zk-sasl-md5\" "),
        // The case of service and host.
        ("zookeeper/zk-sasl-md5", "ZooKeeper/ZK-sasl-md5"),
        ("cnonce=\"zCQzqOoidt4pDMdBwxql6nPCdmbpMF5WRYsoUJwJ\"", "cnonce=\"\""),
    ] {
        let user = judged(&changed(from, to));
        assert_eq!(user.as_ref().map(|user| &*user.name), Ok("bob"), "{from} -> {to}");
    }
    let quoted = JAVA.replace("5d0921a7597c0e79483d9156df5412f7", "\"5d0921a7597c0e79483d9156df5412f7\"");
    assert!(judged(&quoted).is_ok());
}

#[test]
fn the_confirmation_has_the_uri_in_the_spelling_of_the_client() {
    let usual = judged(&changed("", "")).unwrap().rspauth;
    let other = judged(&changed("zookeeper/zk", "ZooKeeper/zk")).unwrap().rspauth;
    assert_ne!(usual, other);
}

#[test]
fn what_a_real_server_refuses_is_refused() {
    for (from, to) in [
        ("username=\"bob\",", ""),
        ("realm=\"zk-sasl-md5\",", ""),
        ("nonce=\"7ltqz44Y/VAjbFxQEG2mTBjDLkKfq4yI+QIYvQbc\",", ""),
        ("cnonce=\"zCQzqOoidt4pDMdBwxql6nPCdmbpMF5WRYsoUJwJ\",", ""),
        ("digest-uri=\"zookeeper/zk-sasl-md5\",", ""),
        ("response=5d0921a7597c0e79483d9156df5412f7,", ""),
        ("realm=\"zk-sasl-md5\"", "realm=\"\""),
        ("realm=\"zk-sasl-md5\"", "realm=\"other\""),
        ("nc=00000001", "nonce-count=00000002"),
        ("nc=00000001", "nonce-count=x"),
        ("nc=00000001", "nonce-count=1,nonce-count=1"),
        ("qop=auth", "qop=auth,auth-param=a,auth-param=b"),
        ("qop=auth", "qop=auth,cipher=a,cipher=b"),
        ("qop=auth", "qop=auth,username"),
        ("qop=auth", "qop=auth,x y=z"),
        ("qop=auth", "qop=auth,=z"),
        ("authzid=\"bob\"", "authzid=\"bob\",x= "),
        ("qop=auth", "qop=\"auth\"x"),
        ("qop=auth", "qop=\"auth,auth-int\""),
        ("qop=auth", "qop="),
        ("qop=auth", "qop=auth-int"),
        ("qop=auth", "qop=auth-conf"),
        ("zookeeper/zk-sasl-md5", "zookeeper/localhost"),
        ("zookeeper/zk-sasl-md5", "ldap/zk-sasl-md5"),
        ("zookeeper/zk-sasl-md5", "zookeeper/zk-sasl-md5/zk-sasl-md5"),
        ("charset=utf-8", "charset=iso-8859-1"),
        ("charset=utf-8", "charset=UTF-8"),
        ("maxbuf=65536", "maxbuf=x"),
        ("nonce=\"7ltqz44Y", "nonce=\"8ltqz44Y"),
        ("username=\"bob\"", "username=\"bo\""),
    ] {
        assert!(judged(&changed(from, to)).is_err(), "{from} -> {to}");
    }
    for token in [
        "",
        "garbage",
        "=",
        "username=",
        "username",
        "username=\"bob",
        "username=\"bob\\",
        "username=\"bob\"x",
        "a b=c",
        &JAVA.to_uppercase(),
        &JAVA.replace("5d0921a7597c0e79483d9156df5412f7", "5D0921A7597C0E79483D9156DF5412F7"),
        &JAVA.replace("username=\"bob\"", "username=\"bob\",username=\"bob\""),
        &JAVA.replace("nc=", "NONCE=\"7ltqz44Y/VAjbFxQEG2mTBjDLkKfq4yI+QIYvQbc\",nc="),
        &format!("{JAVA}\0"),
        &format!("{JAVA},x=\"{}\"", "y".repeat(MAX_TOKEN)),
    ] {
        assert!(judged(token).is_err(), "{token}");
    }
    assert!(judged(&format!("{JAVA},x={}", "y".repeat(MAX_TOKEN - 3 - JAVA.len()))).is_ok(), "the longest");
}

#[test]
fn nothing_proves_to_be_an_unknown_user_not_even_the_key_that_stands_in() {
    let key = UserKey([0; 16]);
    let (nonce, cnonce, digest_uri) = (NONCE.as_bytes(), b"c", DIGEST_URI.as_bytes());
    let response = Computation { key: &key, nonce, cnonce, authzid: None, digest_uri }.response();
    let token = format!(
        "username=nobody,realm=\"{REALM}\",nonce=\"{NONCE}\",cnonce=c,digest-uri={DIGEST_URI},response={response}"
    );
    assert_eq!(judged(&token), Err(DigestMd5Error::WrongPassword));
}

#[test]
fn a_response_with_another_nonce_count_is_refused() {
    for nc in ["00000000", "00000002"] {
        let key = UserKey::new("bob", "bobsecret");
        let a1 = hex(md5([&key.0, b":", NONCE.as_bytes(), b":c"]));
        let a2 = hex(md5([b"AUTHENTICATE:", DIGEST_URI.as_bytes()]));
        let response = hex(md5([format!("{a1}:{NONCE}:{nc}:c:auth:{a2}").as_bytes()]));
        let token = format!(
            "username=bob,realm=\"{REALM}\",nonce=\"{NONCE}\",nc={nc},cnonce=c,digest-uri={DIGEST_URI},response={response}"
        );
        assert_eq!(judged(&token), Err(DigestMd5Error::WrongPassword));
    }
}

#[test]
fn names_and_passwords_are_hashed_in_latin_1_if_they_fit_and_else_in_utf_8() {
    assert_eq!(hashed_form("pä"), b"p\xe4");
    assert_eq!(hashed_form("日本"), "日本".as_bytes());
    for (user, password) in [("al", "pä"), ("jp", "日本"), ("böb", "pä"), ("日", "pä"), ("a\"b\\", "x")]
    {
        let response = respond(challenge(NONCE).as_bytes(), user, password, "c").unwrap();
        let judged = judge(NONCE, response.token(), users).unwrap();
        assert_eq!(judged.name, user);
        assert!(response.is_confirmed_by(judged.rspauth.as_bytes()));
    }
    // In the bytes of UTF-8, as a client that ignores the rule would hash it.
    let in_utf8 = |password: &str| {
        let key = UserKey(md5([b"al:zk-sasl-md5:", password.as_bytes()]));
        let computed = Computation {
            key: &key,
            nonce: NONCE.as_bytes(),
            cnonce: b"c",
            authzid: None,
            digest_uri: DIGEST_URI.as_bytes(),
        };
        let response = computed.response();
        judged(&format!(
            "charset=utf-8,username=\"al\",realm=\"{REALM}\",nonce=\"{NONCE}\",cnonce=\"c\",digest-uri=\"{DIGEST_URI}\",response={response}"
        ))
    };
    assert_eq!(in_utf8("pä"), Err(DigestMd5Error::WrongPassword));
}

#[test]
fn a_name_beyond_ascii_is_in_utf_8_with_and_without_the_charset() {
    let response = respond(challenge(NONCE).as_bytes(), "böb", "pä", "c").unwrap();
    let token = String::from_utf8(response.token().to_vec()).unwrap();
    assert!(judged(&token).is_ok());
    let without = token.replace("charset=utf-8,", "");
    assert!(judged(&without).is_ok());
    let latin: Vec<u8> = without.chars().map(|c| c as u8).collect();
    assert!(judge(NONCE, &latin, users).is_err());
}

#[test]
fn challenges_that_are_not_from_a_zookeeper_server_are_refused() {
    let usual = challenge(NONCE);
    let answered = |challenge: &str| respond(challenge.as_bytes(), "bob", "x", "c").is_ok();
    assert!(answered(&usual));
    assert!(answered(&format!("{usual},qop=\"auth-int, auth\"")));
    assert!(answered(&usual.replace("charset=utf-8,", "")));
    for other in [
        "",
        &usual.replace("nonce=", "nono="),
        &usual.replace("realm=", "rea="),
        &usual.replace("md5-sess", "md5"),
        &usual.replace(",algorithm=md5-sess", ""),
        &usual.replace("utf-8", "latin"),
        &format!("{usual},qop=\"auth-conf\""),
        &format!("{usual},{}", ",".repeat(MAX_TOKEN)),
    ] {
        assert!(!answered(other), "{other}");
    }
    let long = "u".repeat(MAX_TOKEN);
    assert!(respond(usual.as_bytes(), &long, "x", "c").is_err());
}

#[test]
fn no_secret_is_shown() {
    let key = UserKey::new("bob", "bobsecret");
    let response = respond(challenge(NONCE).as_bytes(), "bob", "bobsecret", "c").unwrap();
    let shown = format!("{key:?} {response:?}");
    assert!(!shown.contains("fff08f") && !shown.contains("255") && !shown.contains("response="), "{shown}");
}
