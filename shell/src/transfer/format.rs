//! Files of znodes: ours, and those of zk-shell and ZooNavigator.

use std::collections::BTreeMap;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use clap::ValueEnum;
use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};
use zoolet_client::{Acl, Perms, Stat, Zxid, path};

use super::MovedZnode;
use crate::address::below;
use crate::json;
use crate::text::{PERMISSIONS, parse_perms};
use crate::walk::WalkPath;

/// The first key of our files.
const OURS: &str = "zoolet-export/1";
/// The most bytes that a compressed file becomes.
const MAX_UNZIPPED: u64 = 4 * 1024 * 1024 * 1024;

/// The program that reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FileFormat {
    /// An object in each line: first the root and the zxid, then the znodes, with paths below the root
    Zoolet,
    /// What zk-shell copies to json://
    ZkShell,
    /// What ZooNavigator imports
    Zoonavigator,
}

/// What the first line of a file says.
#[derive(Debug)]
pub(super) struct ExportHeader {
    pub(super) root: String,
    pub(super) zxid: Zxid,
    pub(super) znodes: usize,
    pub(super) ephemerals: usize,
}

/// The text of a file. Paths are those of the server.
pub(super) fn write(
    format: FileFormat,
    header: &ExportHeader,
    znodes: &BTreeMap<WalkPath, (MovedZnode, Stat)>,
) -> Vec<u8> {
    let text = match format {
        FileFormat::Zoolet => write_ours(header, znodes),
        FileFormat::ZkShell => {
            let znodes = znodes.iter().map(|(path, (znode, _))| (path.as_str().to_owned(), zk_shell(znode)));
            format!("{:#}\n", Value::Object(znodes.collect()))
        }
        FileFormat::Zoonavigator => format!("{}\n", zoonavigator(znodes)),
    };
    text.into_bytes()
}

fn write_ours(header: &ExportHeader, znodes: &BTreeMap<WalkPath, (MovedZnode, Stat)>) -> String {
    let ExportHeader { root, zxid, znodes: number, ephemerals } = header;
    let mut text = json::line(&json!({
        "format": OURS, "root": root, "zxid": zxid.to_string(), "znodes": number, "ephemeralsLeftOut": ephemerals,
    }));
    for (path, (znode, stat)) in znodes {
        let acl = znode.acl.as_ref().map(|acl| json!({"acl": json::acl(acl)})).unwrap_or_default();
        let path = json!({"path": below(root, path.as_str())});
        text.push('\n');
        text.push_str(&json::line(&json::joined([path, json::data(&znode.data), acl, json::stat(stat)])));
    }
    text + "\n"
}

fn zk_shell(znode: &MovedZnode) -> Value {
    let entry = |entry: &Acl| json!({"perms": entry.perms.0, "id": {"scheme": entry.scheme, "id": entry.id}});
    let acls: Vec<_> = znode.acl.as_ref().unwrap_or(&Acl::open()).iter().map(entry).collect();
    json!({"content": BASE64.encode(&znode.data), "acls": acls})
}

/// Trees: a znode (`h`) and its children (`t`).
fn zoonavigator(znodes: &BTreeMap<WalkPath, (MovedZnode, Stat)>) -> Value {
    let mut trees: Vec<Value> = Vec::new();
    // From the last one to the first, all children of a znode are there when it comes.
    let mut children: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (path, (znode, _)) in znodes.iter().rev() {
        let mut below = children.remove(path.as_str()).unwrap_or_default();
        below.reverse();
        let entry = |entry: &Acl| {
            let names = PERMISSIONS.iter().filter(|(_, perm)| entry.perms.intersects(*perm));
            let names: Vec<_> = names.map(|(name, _)| *name).collect();
            json!({"id": entry.id, "scheme": entry.scheme, "permissions": names})
        };
        let acl: Vec<_> = znode.acl.as_ref().unwrap_or(&Acl::open()).iter().map(entry).collect();
        let tree = json!({
            "h": {"acl": acl, "path": path.as_str(), "data": BASE64.encode(&znode.data)},
            "t": below,
        });
        let parent = path::parent(path.as_str());
        match path.as_str() != "/" && znodes.contains_key(&WalkPath::new(parent)) {
            true => children.entry(parent.to_owned()).or_default().push(tree),
            false => trees.push(tree),
        }
    }
    trees.reverse();
    Value::Array(trees)
}

/// The znodes of a file in any of the formats, also compressed, with their paths below the root that they have in common.
pub(super) fn read(text: &[u8]) -> Result<BTreeMap<WalkPath, MovedZnode>, String> {
    if text.starts_with(b"\x1f\x8b") {
        let mut unzipped = Vec::new();
        let read = MultiGzDecoder::new(text).take(MAX_UNZIPPED + 1).read_to_end(&mut unzipped);
        return match read {
            Ok(_) if unzipped.starts_with(b"\x1f\x8b") => Err("it is compressed twice".to_owned()),
            Ok(read) if u64::try_from(read).is_ok_and(|read| read <= MAX_UNZIPPED) => self::read(&unzipped),
            Ok(_) => Err(format!("it unzips to more than {MAX_UNZIPPED} bytes")),
            Err(error) => Err(format!("it cannot be decompressed: {error}")),
        };
    }
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let header = serde_json::from_slice::<Value>(first).ok();
    if header.is_some_and(|header| header["format"] == OURS) {
        return read_ours(text);
    }
    let value = serde_json::from_slice::<Value>(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let mut znodes = BTreeMap::new();
    match value {
        Value::Object(object) => {
            for (path, znode) in object {
                let read = read_zk_shell(&znode).map_err(|why| format!("{path}: {why}"))?;
                znodes.insert(checked(&path)?, read);
            }
        }
        Value::Array(trees) => trees.iter().try_for_each(|tree| read_tree(tree, &mut znodes))?,
        _ => return Err("it is none of the formats that export writes".to_owned()),
    }
    Ok(filled(below_common_root(znodes)))
}

fn read_ours(text: &[u8]) -> Result<BTreeMap<WalkPath, MovedZnode>, String> {
    let mut znodes = BTreeMap::new();
    let mut announced = None;
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let wrong = |why: String| format!("line {}: {why}", at + 1);
        let object: Value =
            serde_json::from_slice(line).map_err(|error| wrong(format!("not JSON: {error}")))?;
        if at == 0 {
            announced = object["znodes"].as_u64();
            continue;
        }
        let path = object["path"].as_str().ok_or_else(|| wrong("it has no path".to_owned()))?;
        let data = match (&object["data"], &object["dataBase64"]) {
            (Value::String(text), _) => Bytes::copy_from_slice(text.as_bytes()),
            (_, encoded) => decode(encoded).map_err(wrong)?,
        };
        let acl = match &object["acl"] {
            Value::Array(entries) => {
                Some(entries.iter().map(our_entry).collect::<Result<_, _>>().map_err(wrong)?)
            }
            _ => None,
        };
        znodes.insert(checked(path).map_err(wrong)?, MovedZnode { data, acl, is_gap: false });
    }
    match announced {
        Some(number) if number != u64::try_from(znodes.len()).unwrap_or(u64::MAX) => {
            Err(format!("it should have {number} znodes and has {}: a part is missing", znodes.len()))
        }
        _ => Ok(filled(znodes)),
    }
}

fn our_entry(entry: &Value) -> Result<Acl, String> {
    let text = |key: &str| entry[key].as_str().ok_or_else(|| format!("an entry of the ACL has no {key}"));
    Ok(Acl::new(parse_perms(text("perms")?)?, text("scheme")?, text("id")?))
}

fn read_zk_shell(znode: &Value) -> Result<MovedZnode, String> {
    let entry = |entry: &Value| {
        let perms = entry["perms"].as_i64().and_then(|perms| i32::try_from(perms).ok());
        let (scheme, id) = (entry["id"]["scheme"].as_str(), entry["id"]["id"].as_str());
        match (perms, scheme, id) {
            (Some(perms), Some(scheme), Some(id)) => Ok(Acl::new(Perms(perms), scheme, id)),
            _ => Err("an entry of the ACL is not perms and id".to_owned()),
        }
    };
    let acl = znode["acls"].as_array().map(|acls| acls.iter().map(entry).collect::<Result<Vec<_>, _>>());
    let acl = acl.transpose()?.filter(|acl| !acl.is_empty());
    Ok(MovedZnode { data: decode(&znode["content"])?, acl, is_gap: false })
}

fn read_tree(tree: &Value, znodes: &mut BTreeMap<WalkPath, MovedZnode>) -> Result<(), String> {
    let head = &tree["h"];
    let path = head["path"].as_str().ok_or("a tree has no path")?;
    let entry = |entry: &Value| {
        let (scheme, id) = (entry["scheme"].as_str(), entry["id"].as_str());
        let mut names = entry["permissions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let perms = names.try_fold(Perms::NONE, |all, name| {
            let known = PERMISSIONS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
            let known = known.ok_or_else(|| format!("{path}: {name:?} is no permission"))?;
            Ok::<_, String>(all | known.1)
        })?;
        match (scheme, id) {
            (Some(scheme), Some(id)) => Ok(Acl::new(perms, scheme, id)),
            _ => Err(format!("{path}: an entry of the ACL has no scheme or id")),
        }
    };
    let acl =
        head["acl"].as_array().map(|acl| acl.iter().map(entry).collect::<Result<Vec<_>, _>>()).transpose()?;
    let data = decode(&head["data"]).map_err(|why| format!("{path}: {why}"))?;
    let acl = acl.filter(|acl| !acl.is_empty());
    znodes.insert(checked(path)?, MovedZnode { data, acl, is_gap: false });
    tree["t"].as_array().into_iter().flatten().try_for_each(|child| read_tree(child, znodes))
}

/// Data as base64; null is none.
fn decode(data: &Value) -> Result<Bytes, String> {
    match data {
        Value::Null => Ok(Bytes::new()),
        Value::String(text) => {
            BASE64.decode(text).map(Bytes::from).map_err(|error| format!("data is not base64: {error}"))
        }
        _ => Err("data is not base64".to_owned()),
    }
}

fn checked(path: &str) -> Result<WalkPath, String> {
    path::validate(path).map_err(|reason| format!("{path:?}: {reason}"))?;
    Ok(WalkPath::new(path))
}

/// The same with paths below the lowest znode that all have in common, which need not be among them.
fn below_common_root(znodes: BTreeMap<WalkPath, MovedZnode>) -> BTreeMap<WalkPath, MovedZnode> {
    let Some(first) = znodes.keys().next() else { return znodes };
    let mut root = first.as_str().to_owned();
    while !znodes.keys().all(|path| below(&root, path.as_str()).is_some()) {
        root = path::parent(&root).to_owned();
    }
    let placed = |(path, znode): (WalkPath, _)| Some((WalkPath::new(below(&root, path.as_str())?), znode));
    znodes.into_iter().filter_map(placed).collect()
}

/// The same with the znodes that are left out and have others below them.
fn filled(mut znodes: BTreeMap<WalkPath, MovedZnode>) -> BTreeMap<WalkPath, MovedZnode> {
    for path in znodes.keys().cloned().collect::<Vec<_>>() {
        let mut above = WalkPath::new(path::parent(path.as_str()));
        // What is above one that is there is filled with that one.
        while !znodes.contains_key(&above) {
            let next = WalkPath::new(path::parent(above.as_str()));
            znodes.insert(above, MovedZnode { is_gap: true, ..MovedZnode::default() });
            above = next;
        }
    }
    znodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn znodes() -> BTreeMap<WalkPath, (MovedZnode, Stat)> {
        let acl = Some(vec![Acl::new(Perms::READ | Perms::ADMIN, "world", "anyone")]);
        let znode = |data: &'static [u8]| {
            (MovedZnode { data: data.into(), acl: acl.clone(), is_gap: false }, Stat::default())
        };
        [("/app", &b""[..]), ("/app/a", b"text"), ("/app/a/b", b"\xff"), ("/app/a-c", b"")]
            .map(|(path, data)| (WalkPath::new(path), znode(data)))
            .into()
    }

    #[test]
    fn what_is_written_in_any_format_is_read_again() {
        let header = ExportHeader { root: "/app".to_owned(), zxid: Zxid(7), znodes: 4, ephemerals: 1 };
        let expected: Vec<_> = ["/", "/a", "/a/b", "/a-c"].map(WalkPath::new).into();
        for format in [FileFormat::Zoolet, FileFormat::ZkShell, FileFormat::Zoonavigator] {
            let text = write(format, &header, &znodes());
            let read = read(&text).unwrap_or_else(|why| panic!("{format:?}: {why}"));
            assert_eq!(read.keys().cloned().collect::<Vec<_>>(), expected, "{format:?}");
            let moved: Vec<_> = znodes().into_values().map(|(znode, _)| znode).collect();
            assert_eq!(read.into_values().collect::<Vec<_>>(), moved, "{format:?}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_or_wrong_is_refused_with_the_place() {
        let header = ExportHeader { root: "/app".to_owned(), zxid: Zxid(7), znodes: 4, ephemerals: 1 };
        let whole = write(FileFormat::Zoolet, &header, &znodes());
        let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let cut = lines[..4].concat();
        assert_eq!(read(&cut).unwrap_err(), "it should have 4 znodes and has 3: a part is missing");
        for (text, part) in [
            (r#"{"format":"zoolet-export/1"}"#.to_owned() + "\n{\"data\":\"\"}", "line 2: it has no path"),
            (r#"{"a":{"content":null}}"#.to_owned(), "\"a\": a path must start with /"),
            (r#"{"/a":{"content":"?"}}"#.to_owned(), "/a: data is not base64"),
            (r#"[{"h":{}}]"#.to_owned(), "a tree has no path"),
            (
                r#"[{"h":{"path":"/a","acl":[{"scheme":"world","id":"anyone","permissions":["red"]}]}}]"#
                    .to_owned(),
                "/a: \"red\" is no permission",
            ),
            ("3".to_owned(), "none of the formats"),
            ("{".to_owned(), "it is not JSON"),
        ] {
            let why = read(text.as_bytes()).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn files_of_others_are_read() {
        let of_zk_shell = r#"{"/x/a": {"content": "aGk=", "acls": [{"perms": 31, "id": {"scheme": "world", "id": "anyone"}}]},
            "/x/b": {"content": null, "acls": []}}"#;
        let read = self::read(of_zk_shell.as_bytes()).unwrap();
        assert_eq!(
            read[&WalkPath::new("/a")],
            MovedZnode { data: "hi".into(), acl: Some(Acl::open()), is_gap: false }
        );
        assert_eq!(read[&WalkPath::new("/b")], MovedZnode::default());
    }
}
