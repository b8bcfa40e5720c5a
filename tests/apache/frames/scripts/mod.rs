//! What both servers are asked, by subject.

mod access;
mod frames;
mod lifetimes;
mod multi;
mod reads;
mod sessions;
mod watches;
mod writes;

use zoolet_test_support::*;

use crate::frames::duo::{Conn, Duo};
use crate::frames::random;

/// A name, and what to ask.
pub type Script = (&'static str, fn(&mut Duo));

/// For a server with default settings.
pub const PLAIN: &[Script] = &[
    ("fresh database", reads::fresh),
    ("handshakes", sessions::handshakes),
    ("moves", sessions::moves),
    ("ends", sessions::ends),
    ("create", writes::creates),
    ("create in odd places", writes::odd_creates),
    ("create with combined faults", writes::combined_faults),
    ("characters of paths", writes::characters),
    ("sequential names", writes::sequences),
    ("versions", writes::versions),
    ("null and empty", writes::nulls),
    ("paths of every operation", reads::paths),
    ("reads", reads::reads),
    ("ephemerals", reads::ephemerals_by_prefix),
    ("ACL lists", access::lists),
    ("ACL entries written by hand", access::raw_lists),
    ("permissions", access::permissions),
    ("identities", access::identities),
    ("masking", access::masking),
    ("false identities", access::false_identities),
    ("one-shot watches", watches::one_shot),
    ("persistent watches", watches::persistent),
    ("filtered watches", watches::filtered),
    ("reconciling watches", watches::reconcile),
    ("removing watches", watches::removal),
    ("odd watch requests", watches::odd),
    ("multi", multi::parts),
    ("multi, part by part", multi::each_part),
    ("multi with create flags", multi::flags),
    ("multi written by hand", multi::by_hand),
    ("multiRead", multi::reads),
    ("opcodes", frames::opcodes),
    ("lengths", frames::lengths),
    ("bodies cut short", frames::cuts),
    ("bodies with odd bytes", frames::odd_bytes),
    ("xids", frames::xids),
    ("pipelines", frames::pipelines),
    ("pipelines that depend on themselves", frames::dependent_pipelines),
    ("quota statistics", lifetimes::quota_statistics),
    ("TTLs switched off", lifetimes::ttl_off),
    ("deleteContainer", lifetimes::containers_deleted),
    ("random quotas", random::quotas),
];

/// For a server with TTLs, enforced quotas, reconfig and a super user.
pub const EXTENDED: &[Script] = &[
    ("TTL", lifetimes::ttl_on),
    ("TTL in a multi", lifetimes::ttl_in_multi),
    ("enforced quotas", lifetimes::quota_enforced),
    ("quotas in a multi", lifetimes::quota_in_multi),
    ("super", access::super_user),
    ("reconfig", frames::reconfig),
    ("random quotas", random::quotas),
];

/// Asks everything in a list, in order, on one connection.
fn all(duo: &mut Duo, conn: Conn, requests: impl IntoIterator<Item = zoolet_proto::Request>) {
    for request in requests {
        duo.ask(conn, request);
    }
}

/// Deletes what earlier steps may have left; each deletion is compared as well.
fn clear(duo: &mut Duo, conn: Conn, paths: &[&str]) {
    for path in paths {
        duo.ask(conn, delete(path));
    }
}

/// Why differences are meant; each is a line of `docs/deviations.md`.
const NULLS: &str = "a null path, ACL or id refuses the request before anything else does";
const UTF8: &str = "characters outside the Basic Multilingual Plane travel as UTF-8, not as two surrogates";

/// The texts that are no paths, and some that look odd and are.
const ODD_PATHS: &[&str] = &[
    "",
    "/",
    "//",
    "a",
    "a/b",
    "//a",
    "/a//b",
    "/a/",
    "/.",
    "/..",
    "/...",
    "/a/.",
    "/a/./b",
    "/a/../b",
    "/ ",
    "/~",
    "/\u{1}",
    "/\u{1f}",
    "/\u{7f}",
    "/\u{80}",
    "/\u{9f}",
    "/\u{a0}",
    "/\u{d7ff}",
    "/\u{e000}",
    "/\u{f8ff}",
    "/\u{f900}",
    "/\u{ffef}",
    "/\u{fff0}",
    "/\u{fffd}",
    "/\u{ffff}",
    "/a\0b",
    "/a\0",
    "\0",
    "/a/b",
    "/ä/ö",
    "/zookeeper",
    "/zookeeper/",
    "/zookeeper/quota",
    "/zookeeper/config",
    "/zookeeper/none",
];
