//! Our service discovery and groups, by lines as in ../../../driver/services.py.
#![allow(clippy::print_stdout, reason = "it answers there")]

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use zoolet_client::{Client, Sessions};
use zoolet_recipes::discovery::{
    CuratorFormat, Instance, Registration, ServerSetEndpoint, ServerSetFormat, ServerSetMember,
    ServiceInstances, Services, Strategy, UriSpec,
};
use zoolet_recipes::{Group, GroupLayout, KeepNode};

const SERVICE: &str = "web";

type Outcome<T> = Result<T, Box<dyn Error>>;

#[derive(Serialize)]
struct Payload {
    weight: i32,
    zone: &'static str,
}

/// What is to be closed.
enum Open {
    Registration(Registration),
    Membership(KeepNode),
}

/// The same as Curator's of this shape.
fn instance(id: &str, shape: &str) -> Outcome<Instance> {
    let mut instance = Instance::new(SERVICE, id, "10.0.0.1");
    instance.registration_time_utc = 1_700_000_000_000;
    Ok(match shape {
        "bare" => instance,
        "text" => instance.port(80).payload("\u{e9} \" \\ \n \u{20ac}")?,
        "full" => instance
            .port(80)
            .ssl_port(443)
            .java_payload("java.util.LinkedHashMap", &Payload { weight: 3, zone: "eu" })?
            .uri_spec(UriSpec::parse("{scheme}://{address}:{ssl-port}/{x}")),
        "disabled" => {
            instance.enabled = false;
            instance.port(80)
        }
        "plain" => instance.port(80),
        "shard" => {
            let mut member = ServerSetMember::new(ServerSetEndpoint::new("10.0.0.2", 80));
            member.additional_endpoints.insert("admin".into(), ServerSetEndpoint::new("10.0.0.2", 81));
            member.shard = Some(3);
            Instance::new(SERVICE, id, "10.0.0.2").port(80).payload(&member)?
        }
        _ => return Err(format!("{shape}: no such shape").into()),
    })
}

fn layout(name: &str) -> GroupLayout {
    match name {
        "party" => GroupLayout::Party,
        "shallow" => GroupLayout::ShallowParty,
        _ => GroupLayout::Named,
    }
}

/// As the Java program lists them.
fn listed(instances: &ServiceInstances) -> String {
    let listed = |instance: &Instance| {
        format!(
            "{}={}={}={}",
            instance.id,
            instance.uri_spec.as_ref().map(|spec| spec.build(instance)).unwrap_or_default(),
            instance.enabled,
            instance.payload_json().is_some()
        )
    };
    instances.iter().map(|instance| listed(instance)).collect::<Vec<_>>().join(" ")
}

/// As finagle's program lists them.
fn servers(instances: &ServiceInstances) -> Outcome<String> {
    let mut servers = Vec::new();
    for instance in instances.iter() {
        let member: ServerSetMember = instance.payload_as()?.ok_or("no payload")?;
        let ServerSetEndpoint { host, port, .. } = &member.service_endpoint;
        let mut words = vec![format!("{host}:{port}")];
        words.extend(
            member.additional_endpoints.iter().map(|(name, at)| format!("{name}={}:{}", at.host, at.port)),
        );
        words.push(member.status);
        words.push(member.shard.map_or("-".into(), |shard| shard.to_string()));
        servers.push(words.join(","));
    }
    servers.sort();
    Ok(servers.join(" "))
}

async fn obey(sessions: &Sessions, open: &mut HashMap<String, Open>, words: &[&str]) -> Outcome<String> {
    match *words {
        ["register", id, base, mode, shape] => {
            let builder = Registration::builder(sessions, base);
            let builder = match mode {
                "enabled" => builder.format(CuratorFormat::with_enabled()),
                "serverset" => builder.format(ServerSetFormat),
                _ => builder.format(CuratorFormat::compatible()),
            };
            let registration = builder.start(instance(id, shape)?)?;
            registration.present().await?;
            open.insert(id.into(), Open::Registration(registration));
            Ok(format!("registered {id}"))
        }
        ["query", id, base] => {
            let services = Services::builder(sessions, base).open().await?;
            Ok(format!("found {id} {}", listed(&services.service(SERVICE))))
        }
        ["servers", id, base] => {
            let services = Services::builder(sessions, base).format(ServerSetFormat).open().await?;
            Ok(format!("found {id} {}", servers(&services.service(SERVICE))?))
        }
        ["children", id, path] => {
            let (mut names, _) = sessions.client().await?.get_children(path).await?;
            names.sort();
            Ok(format!("children {id} {}", names.join(" ")))
        }
        ["provide", id, base] => {
            let services = Services::builder(sessions, base).open().await?;
            let chosen = services.selector(SERVICE, Strategy::RoundRobin).build().select();
            Ok(format!("chosen {id} {}", chosen.map_or("none".into(), |chosen| chosen.id.clone())))
        }
        ["join", id, dir, kind] => {
            let member = Group::new(sessions, dir).layout(layout(kind)).member(id).await?;
            let member = if kind == "named" { member.data("zoolet") } else { member };
            let member = member.start()?;
            member.present().await?;
            open.insert(id.into(), Open::Membership(member));
            Ok(format!("joined {id}"))
        }
        ["members", id, dir, kind] => {
            let members = Group::new(sessions, dir).layout(layout(kind)).members().await?;
            let ids: Vec<_> = members.list().into_iter().map(|member| member.id).collect();
            Ok(format!("found {id} {}", ids.join(" ")))
        }
        ["leave", id] => {
            match open.remove(id).ok_or("nothing is open")? {
                Open::Registration(registration) => registration.close().await?,
                Open::Membership(member) => member.close().await?,
            }
            Ok(format!("left {id}"))
        }
        ["data", id, path] => {
            let (data, _) = sessions.client().await?.get_data(path).await?;
            Ok(format!("data {id} {}", String::from_utf8(data.to_vec())?))
        }
        // The znode, or none.
        ["czxid", id, path] => {
            let stat = sessions.client().await?.exists(path).await?;
            Ok(format!("czxid {id} {}", stat.map_or(0, |stat| stat.czxid.0)))
        }
        ["create", id, path, ref data @ ..] => {
            sessions.client().await?.create(path, data.join(" ")).parents().await?;
            Ok(format!("created {id}"))
        }
        ["delete", id, path] => {
            sessions.client().await?.delete(path).await?;
            Ok(format!("deleted {id}"))
        }
        _ => Err("no such command".into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let hosts = std::env::args().nth(1).ok_or("usage: services HOST:PORT")?;
    let sessions = Sessions::open(Client::options().session_timeout(Duration::from_secs(10)), &*hosts)?;
    let mut open = HashMap::new();
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<_> = line.split(' ').collect();
        match obey(&sessions, &mut open, &words).await {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("error {} {error}", words.get(1).unwrap_or(&"?")),
        }
    }
    Ok(())
}
