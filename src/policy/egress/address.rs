//! Which addresses are never dialled, whatever name they stand for.
//!
//! IPv4 is a list of what is denied; of IPv6 only what is given out to the public is open, and of that not what
//! carries an IPv4 address which is denied. An address must never be judged in one form and dialled in another.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::EgressDenial;

/// Where clouds give their machines' identities and credentials to whoever asks. Nothing opens these.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    // Credentials of containers and pods.
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The same in IPv6.
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// The ranges of IPv4 that are not the public's (RFC 6890 and its registry): network and length of its prefix.
const DENIED_V4: [(Ipv4Addr, u32); 16] = [
    // "This network", and with it the unspecified address, which is this host.
    (Ipv4Addr::UNSPECIFIED, 8),
    // Private.
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Carrier-grade NAT.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    // Loopback and link-local.
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    // Protocol assignments.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    // Documentation.
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Relays of 6to4.
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    // Benchmarks.
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    // Azure's own services, which only its machines reach.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    // Multicast.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    // Reserved, and broadcast.
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// What of IPv6 is given out to the public; everything else is denied: unspecified, loopback, mapped and compatible
/// forms, discard, local NAT64, unique and site local, link-local, multicast, and what is not given out yet.
const PUBLIC_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// What of that is not the public's after all.
const DENIED_V6: [(Ipv6Addr, u32); 4] = [
    // Protocol assignments: Teredo, benchmarks, ORCHID.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation.
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
    // 6to4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
];

/// NAT64 as everybody uses it: stands for the IPv4 address at its end, and is as open as that.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
/// NAT64 within one network (RFC 8215).
const LOCAL_NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48);
const TEREDO: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32);
const SIX_TO_FOUR: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);
/// The old way to write an IPv4 address in IPv6.
const COMPATIBLE: (Ipv6Addr, u32) = (Ipv6Addr::UNSPECIFIED, 96);

/// Decides whether `address` may be dialled. `own` says that it is one of this machine's; `open` are the ranges that
/// the operator opened.
///
/// # Errors
/// [`EgressDenial::AddressDenied`].
pub fn address(address: IpAddr, own: bool, open: &[IpNet]) -> Result<(), EgressDenial> {
    let address = address.to_canonical();
    let opened = || open.iter().any(|range| range.contains(&address));
    if is_metadata(address) || ((own || !is_public(address)) && !opened()) {
        return Err(EgressDenial::AddressDenied);
    }
    Ok(())
}

fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => METADATA_V4.contains(&address),
        IpAddr::V6(address) => {
            METADATA_V6.contains(&address)
                || embedded(address)
                    .into_iter()
                    .flatten()
                    .any(|inner| METADATA_V4.contains(&inner))
        }
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => {
            let given_out = within(address, PUBLIC_V6)
                && !DENIED_V6.iter().any(|range| within(address, *range));
            (given_out || within(address, NAT64))
                && embedded(address).into_iter().flatten().all(is_public_v4)
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !DENIED_V4.iter().any(|(network, length)| {
        (u32::from(address) ^ u32::from(*network)).leading_zeros() >= *length
    })
}

fn within(address: Ipv6Addr, (network, length): (Ipv6Addr, u32)) -> bool {
    (u128::from(address) ^ u128::from(network)).leading_zeros() >= length
}

/// The IPv4 addresses that an IPv6 address carries: where a packet to it may come out in the end.
fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 3] {
    let octets = address.octets();
    let at = |i: usize| Ipv4Addr::new(octets[i], octets[i + 1], octets[i + 2], octets[i + 3]);
    let last = at(12);
    if within(address, NAT64) || within(address, COMPATIBLE) {
        return [Some(last), None, None];
    }
    if within(address, LOCAL_NAT64) {
        // RFC 6052 leaves bits 64 to 71 out.
        let split = Ipv4Addr::new(octets[6], octets[7], octets[9], octets[10]);
        return [Some(last), Some(split), None];
    }
    if within(address, TEREDO) {
        // The server, and the client with its bits inverted.
        return [Some(at(4)), Some(Ipv4Addr::from(!u32::from(last))), None];
    }
    // ISATAP: an interface identifier in any network, 6to4 included.
    let isatap = matches!(octets[8..12], [0 | 2, 0, 0x5e, 0xfe]).then_some(last);
    let six_to_four = within(address, SIX_TO_FOUR).then(|| at(2));
    [isatap, six_to_four, None]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn denied(text: &str, open: &[&str]) -> bool {
        let open: Vec<IpNet> = open.iter().map(|net| net.parse().unwrap()).collect();
        address(text.parse().unwrap(), false, &open).is_err()
    }

    /// First and last of each denied range, and the public neighbours before and behind it, where there are.
    const RANGES: &[(&str, &str, &str, &str)] = &[
        ("", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
        ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
        (
            "100.63.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "100.128.0.0",
        ),
        (
            "126.255.255.255",
            "127.0.0.0",
            "127.255.255.255",
            "128.0.0.0",
        ),
        (
            "169.253.255.255",
            "169.254.0.0",
            "169.254.255.255",
            "169.255.0.0",
        ),
        (
            "172.15.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "172.32.0.0",
        ),
        ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
        ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
        (
            "192.88.98.255",
            "192.88.99.0",
            "192.88.99.255",
            "192.88.100.0",
        ),
        (
            "192.167.255.255",
            "192.168.0.0",
            "192.168.255.255",
            "192.169.0.0",
        ),
        (
            "198.17.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.20.0.0",
        ),
        (
            "198.51.99.255",
            "198.51.100.0",
            "198.51.100.255",
            "198.51.101.0",
        ),
        (
            "203.0.112.255",
            "203.0.113.0",
            "203.0.113.255",
            "203.0.114.0",
        ),
        (
            "168.63.129.15",
            "168.63.129.16",
            "168.63.129.16",
            "168.63.129.17",
        ),
        ("223.255.255.255", "224.0.0.0", "239.255.255.255", ""),
        ("", "240.0.0.0", "255.255.255.255", ""),
        ("", "::", "::1", ""),
        ("", "::ffff:0:0", "::ffff:0.255.255.255", "::ffff:1.0.0.0"),
        (
            "::ffff:9.255.255.255",
            "::ffff:10.0.0.0",
            "::ffff:10.255.255.255",
            "::ffff:11.0.0.0",
        ),
        ("", "::1.0.0.0", "::9.9.9.9", ""),
        ("", "100::", "100::ffff:ffff:ffff:ffff", ""),
        (
            "64:ff9b::9.255.255.255",
            "64:ff9b::10.0.0.0",
            "64:ff9b::10.255.255.255",
            "64:ff9b::11.0.0.0",
        ),
        ("", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", ""),
        (
            "",
            "1fff:ffff::",
            "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2000::",
        ),
        (
            "2000:ffff::",
            "2001::",
            "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:200::",
        ),
        (
            "2001:db7:ffff::",
            "2001:db8::",
            "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:db9::",
        ),
        (
            "2001:ffff::",
            "2002::",
            "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2003::",
        ),
        (
            "3ffe:ffff::",
            "3fff::",
            "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
            "3fff:1000::",
        ),
        (
            "3fff:ffff::",
            "4000::",
            "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "",
        ),
        ("", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""),
        ("", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""),
        ("", "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""),
        ("", "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""),
    ];

    #[test]
    fn each_range_is_denied_from_its_first_address_to_its_last_and_its_neighbours_are_not() {
        for (before, first, last, behind) in RANGES {
            assert!(denied(first, &[]), "{first}");
            assert!(denied(last, &[]), "{last}");
            for neighbour in [before, behind].into_iter().filter(|text| !text.is_empty()) {
                assert!(!denied(neighbour, &[]), "{neighbour}");
            }
        }
    }

    #[test]
    fn the_public_is_open() {
        for open in [
            "1.1.1.1",
            "8.8.8.8",
            "2606:4700::1111",
            "64:ff9b::8.8.8.8",
            "2a00:1450::5efe:1",
        ] {
            assert!(!denied(open, &[]), "{open}");
        }
    }

    #[test]
    fn an_ipv6_address_that_carries_a_denied_ipv4_address_is_denied() {
        for carrier in [
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2001:0:7f00:1::",
            "2606:4700::5efe:10.0.0.1",
            "2606:4700::200:5efe:192.168.1.1",
        ] {
            assert!(denied(carrier, &[]), "{carrier}");
        }
        assert!(!denied("2606:4700::5efe:8.8.8.8", &[]));
    }

    #[test]
    fn an_open_range_opens_what_is_in_it_and_nothing_else() {
        assert!(!denied("127.0.0.1", &["127.0.0.1/32"]));
        assert!(!denied("::ffff:127.0.0.1", &["127.0.0.1/32"]), "one form");
        assert!(denied("127.0.0.2", &["127.0.0.1/32"]));
        assert!(denied("::127.0.0.1", &["127.0.0.1/32"]), "another address");
        assert!(!denied("10.9.9.9", &["192.168.0.0/16", "10.0.0.0/8"]));
        assert!(!denied("::1", &["::1/128"]));
        assert!(!denied("fd12::1", &["fd12::/16"]));
    }

    #[test]
    fn nothing_opens_cloud_metadata_in_any_form() {
        let everything = ["0.0.0.0/0", "::/0"];
        for metadata in [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::100.100.100.200",
            "64:ff9b:1::168.63.129.16",
            "64:ff9b:1:a9fe:a9:fe00::",
            "2002:a9fe:a9fe::1",
            "2001:0:a9fe:a9fe::",
            // 169.254.169.254 inverted.
            "2001:0:808:808::5601:5601",
            "2606:4700::5efe:169.254.169.254",
        ] {
            assert!(denied(metadata, &everything), "{metadata}");
        }
        assert!(!denied("169.254.169.253", &everything));
    }

    #[test]
    fn this_machines_own_addresses_are_denied_unless_they_are_opened() {
        let ip: IpAddr = "8.8.8.8".parse().unwrap();
        assert_eq!(address(ip, true, &[]), Err(EgressDenial::AddressDenied));
        assert_eq!(address(ip, false, &[]), Ok(()));
        assert_eq!(address(ip, true, &["8.8.8.8/32".parse().unwrap()]), Ok(()));
    }

    proptest! {
        #[test]
        fn a_mapped_address_is_judged_as_the_address_itself(bits: u32, own: bool) {
            let plain = Ipv4Addr::from(bits);
            let mapped = IpAddr::V6(plain.to_ipv6_mapped());
            prop_assert_eq!(address(mapped, own, &[]), address(IpAddr::V4(plain), own, &[]));
        }

        #[test]
        fn nat64_is_as_open_as_what_it_stands_for(bits: u32) {
            let plain = Ipv4Addr::from(bits);
            let carrier = Ipv6Addr::from(u128::from(NAT64.0) | u128::from(bits));
            prop_assert_eq!(
                address(IpAddr::V6(carrier), false, &[]),
                address(IpAddr::V4(plain), false, &[])
            );
        }

        #[test]
        fn what_is_public_is_nothing_that_the_standard_library_knows_as_local(bits: u128) {
            let ip = Ipv6Addr::from(bits);
            if address(IpAddr::V6(ip), false, &[]).is_ok() {
                prop_assert!(!ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast());
                prop_assert!(!ip.is_unique_local() && !ip.is_unicast_link_local());
            }
        }

        #[test]
        fn what_is_public_in_ipv4_is_nothing_that_the_standard_library_knows_as_local(bits: u32) {
            let ip = Ipv4Addr::from(bits);
            if address(IpAddr::V4(ip), false, &[]).is_ok() {
                prop_assert!(!ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast());
                prop_assert!(!ip.is_private() && !ip.is_link_local() && !ip.is_documentation());
                prop_assert!(!ip.is_broadcast());
            }
        }
    }
}
