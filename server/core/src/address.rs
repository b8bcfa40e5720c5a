//! Network addresses in ACL entries, parsed and compared as in ZooKeeper (`IPAuthenticationProvider`). The standard library
//! differs: to ZooKeeper `010.0.0.1` is an address and `::ffff:10.0.0.1` is not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address and the number of its bits that count, the leading ones. The others are zero.
pub(crate) type Subnet = (IpAddr, u32);

/// Whether the entry `addr[/bits]` matches `peer`.
pub(crate) fn ip_matches(entry: &str, peer: IpAddr) -> bool {
    subnet(entry).is_some_and(|(net, bits)| net == network(peer, bits))
}

/// All subnets that an address is in.
pub(crate) fn subnets_of(peer: IpAddr) -> impl Iterator<Item = Subnet> {
    let most = if peer.is_ipv4() { 32 } else { 128 };
    (0..=most).map(move |bits| (network(peer, bits), bits))
}

/// The leading bits of an address, and zeros.
fn network(addr: IpAddr, bits: u32) -> IpAddr {
    let rest = |width: u32| width.saturating_sub(bits);
    match addr {
        IpAddr::V4(addr) => (addr & Ipv4Addr::from(u32::MAX.checked_shl(rest(32)).unwrap_or(0))).into(),
        IpAddr::V6(addr) => (addr & Ipv6Addr::from(u128::MAX.checked_shl(rest(128)).unwrap_or(0))).into(),
    }
}

/// An address as Java prints it: IPv6 with all groups.
pub(crate) fn ip_text(addr: IpAddr) -> String {
    match addr {
        IpAddr::V4(addr) => addr.to_string(),
        IpAddr::V6(addr) => addr.segments().map(|group| format!("{group:x}")).join(":"),
    }
}

/// What `addr[/bits]` stands for; `None` if the text is not that.
pub(crate) fn subnet(text: &str) -> Option<Subnet> {
    let (addr, bits) = match text.split_once('/') {
        Some((addr, bits)) => (addr, Some(bits)),
        None => (text, None),
    };
    let addr = if addr.contains(':') { IpAddr::V6(v6(addr)?) } else { IpAddr::V4(v4(addr)?) };
    let max = if addr.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        // Java parses `-0` as a number.
        Some(bits) => {
            bits.parse::<i32>().ok().and_then(|bits| u32::try_from(bits).ok()).filter(|bits| *bits <= max)?
        }
        None => max,
    };
    Some((network(addr, bits), bits))
}

/// Four decimal numbers; signs and leading zeros are allowed.
fn v4(text: &str) -> Option<Ipv4Addr> {
    let octet = |part: &str| u8::try_from(part.parse::<i32>().ok()?).ok();
    let octets: Vec<u8> = text.split('.').map(octet).collect::<Option<_>>()?;
    Some(<[u8; 4]>::try_from(octets).ok()?.into())
}

/// Eight groups in hex, or fewer around one `::`.
fn v6(text: &str) -> Option<Ipv6Addr> {
    let groups = |part: &str| -> Option<Vec<u16>> {
        if part.is_empty() { Some(Vec::new()) } else { part.split(':').map(group).collect() }
    };
    let (front, back, allowed) = match text.split_once("::") {
        Some((front, back)) => (groups(front)?, groups(back)?, 0..=7),
        None => (groups(text)?, Vec::new(), 8..=8),
    };
    if !allowed.contains(&(front.len() + back.len())) {
        return None;
    }
    let mut all = [0; 8];
    all[..front.len()].copy_from_slice(&front);
    all[8 - back.len()..].copy_from_slice(&back);
    Some(all.into())
}

fn group(text: &str) -> Option<u16> {
    if text.len() > 4 {
        return None;
    }
    // `Integer.parseInt` accepts a sign, and two bytes of the number count.
    i32::from_str_radix(text, 16).ok().map(|group| group as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_match_by_their_leading_bits_within_a_family() {
        let peer: IpAddr = "127.0.0.1".parse().unwrap();
        for (entry, verdict) in [
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("127.0.0.0/8", true),
            ("127.0.0.0/31", true),
            ("10.0.0.0/0", true),
            ("10.0.0.0/-0", true),
            ("::/0", false),
            ("127.0.0.1/33", false),
        ] {
            assert_eq!(ip_matches(entry, peer), verdict, "{entry}");
        }
        assert!(ip_matches("2001:db8::/32", "2001:db8::1".parse().unwrap()));
    }

    #[test]
    fn addresses_are_parsed_as_java_parses_them() {
        for text in [
            "010.0.0.1",
            "+1.0.0.0",
            "10.0.0.1/+8",
            "::",
            "1::",
            "::1",
            "1:2:3:4:5:6:7:8",
            "FE80::A",
            "1::-1",
        ] {
            assert!(subnet(text).is_some(), "{text}");
        }
        for text in [
            "",
            "१०.0.0.1",
            "10.0.0.1/٨",
            "/",
            "1",
            "10.0.0",
            "10.0.0.256",
            "-1.0.0.0",
            "10.0.0.1.",
            "10.0.0.1/",
            "10.0.0.1/33",
            "10.0.0.1/-1",
            "::ffff:10.0.0.1",
            ":",
            ":::",
            "1:",
            "1::2::3",
            "12345::",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8:9",
            "1:2:3:4::5:6:7:8",
            "::1/129",
            "g::",
            "fe80::1%eth0",
        ] {
            assert!(subnet(text).is_none(), "{text}");
        }
    }
}
