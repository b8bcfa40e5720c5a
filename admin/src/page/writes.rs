//! Create, set and delete.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Value, json};
use zoolet_proto::records::{Create, Delete, SetData};
use zoolet_proto::{Acl, CreateMode, Request, Stat, jute, path};

use super::answer::{ApiError, ApiResult};
use super::short_session::{WriteError, execute};
use super::visible::{Reader, valid_path};
use crate::http::HttpBody;

/// Bytes of a body: the longest frame that a client may send, in base64, with the names of the fields.
const MAX_BODY: usize = 1_500_000;

/// Executes the write `name` as its body asks for, with the identities of the reader.
pub(super) async fn write(name: &str, reader: &Reader<'_>, body: &mut HttpBody) -> ApiResult {
    let (path, request) = {
        let body = body.collect(MAX_BODY).await.map_err(|error| ApiError::bad(error.to_string()))?;
        wanted(name, reader, &body)?
    };
    let stream = reader.observer.connect_for(reader.peer).map_err(|_| ApiError::stopped())?;
    let reply = execute(stream, reader.credentials.clone(), request).await.map_err(|error| match error {
        WriteError::Refused(code) => ApiError::refused(code, &path),
        error => ApiError::new(StatusCode::BAD_GATEWAY, "Unknown", error.to_string()),
    })?;
    let answer = match name {
        "create" => jute::parse::<String>(&reply).map(|path| json!({ "path": path })),
        "set" => jute::parse::<Stat>(&reply).map(|stat| json!({ "path": path, "version": stat.version })),
        _ => Ok(json!({ "path": path })),
    };
    tracing::info!(peer = %reader.peer, user = reader.user(), path, "the page has executed a {name}");
    answer.map_err(|error| ApiError::new(StatusCode::BAD_GATEWAY, "Unknown", error.to_string()))
}

/// The path and the request of a body. What is parsed may take many times the memory of the body, and is dropped at once.
fn wanted(name: &str, reader: &Reader<'_>, body: &[u8]) -> ApiResult<(String, Request)> {
    let body: Value =
        serde_json::from_slice(body).map_err(|error| ApiError::bad(format!("not JSON: {error}")))?;
    let is_sequential = body["sequential"] == true;
    let path = written_path(&body, is_sequential)?;
    let request = match name {
        "create" => {
            let mode = if is_sequential { CreateMode::PersistentSequential } else { CreateMode::Persistent };
            let (data, acl) = (Some(data_of(&body)?), Some(acl(reader).into()));
            Request::Create(Create { path: path.clone(), data, acl, flags: mode.code() })
        }
        "set" => {
            let (data, version) = (Some(data_of(&body)?), version_of(&body)?);
            Request::SetData(SetData { path: path.clone(), data, version })
        }
        _ => Request::Delete(Delete { path: path.clone(), version: version_of(&body)? }),
    };
    Ok((path, request))
}

fn written_path(body: &Value, is_sequential: bool) -> ApiResult<String> {
    let path = body["path"].as_str().ok_or_else(|| ApiError::bad("the field `path` is missing"))?;
    // The number makes it a name.
    if is_sequential && path.ends_with('/') && path::validate(&format!("{path}0")).is_ok() {
        return Ok(path.to_owned());
    }
    valid_path(path)
}

fn data_of(body: &Value) -> ApiResult<Bytes> {
    let data = body["data"].as_str().ok_or_else(|| ApiError::bad("the field `data` is missing"))?;
    BASE64.decode(data).map(Bytes::from).map_err(|error| ApiError::bad(format!("data: {error}")))
}

/// Required, so that nobody overwrites what somebody else has written since.
fn version_of(body: &Value) -> ApiResult<i32> {
    let version = body["version"].as_i64().and_then(|version| i32::try_from(version).ok());
    version.ok_or_else(|| ApiError::bad("the field `version` is missing: the version that you have seen"))
}

/// Of a new znode: all for its creator and reading for others, or open if nobody has proved who he is.
fn acl(reader: &Reader<'_>) -> Vec<Acl> {
    match reader.credentials {
        Some(_) => [Acl::creator_all(), Acl::read_only()].concat(),
        None => Acl::open(),
    }
}
