//! The host grammar, alone and beside two others that programs use: the `url` crate and the C library.

use std::net::IpAddr;

use dns_lookup::{AddrInfoHints, getaddrinfo};
use proptest::prelude::*;
use url::Url;

use super::*;

/// `AI_NUMERICHOST`, the same on every platform: only texts that are addresses are taken, and nobody is asked.
const NUMERIC_HOST: i32 = 4;

fn shown(text: &str) -> Result<String, HostError> {
    Host::parse(text).map(|host| host.to_string())
}

#[test]
fn a_host_has_one_spelling() {
    for (text, expected) in [
        ("example.org", "example.org"),
        ("EXAMPLE.Org", "example.org"),
        ("example.org.", "example.org"),
        ("localhost", "localhost"),
        ("_dmarc.example.org", "_dmarc.example.org"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("3com.example", "3com.example"),
        ("1.example", "1.example"),
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1.", "192.0.2.1"),
        ("::1", "[::1]"),
        ("[::1]", "[::1]"),
        ("[2001:DB8::0:1]", "[2001:db8::1]"),
    ] {
        assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn every_way_to_write_an_ipv4_address_is_that_address() {
    for text in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "0x7f.0x0.0x0.0x1",
        "0177.0.0.01",
        "017700000001",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "::FFFF:127.0.0.1",
    ] {
        assert_eq!(shown(text).as_deref(), Ok("127.0.0.1"), "{text}");
    }
}

#[test]
fn what_can_be_read_in_more_than_one_way_is_no_host() {
    use HostError::{Address, Character, Empty, Label, TooLong};
    let (label, name) = ("a".repeat(64), "a.".repeat(127) + "a");
    for (text, expected) in [
        ("", Empty),
        (".", Empty),
        ("..", Label),
        ("example.org..", Label),
        (".example.org", Label),
        ("example..org", Label),
        ("-example.org", Label),
        ("example-.org", Label),
        ("xn--.example", Label),
        ("xn--a_b.example", Label),
        (&label, Label),
        (&name, TooLong),
        ("example.org\0", Character),
        ("exam\0ple.org", Character),
        ("example.org%00", Character),
        ("%65xample.org", Character),
        ("user@example.org", Character),
        ("exa mple.org", Character),
        (" example.org", Character),
        ("example.org\t", Character),
        ("example.org\r\n", Character),
        ("example.org/", Character),
        ("example.org\\", Character),
        ("example.org?", Character),
        ("example.org#", Character),
        ("*.example.org", Character),
        ("b\u{fc}cher.example", Character),
        ("example\u{3002}org", Character),
        ("\u{ff11}27.0.0.1", Character),
        ("fe80::1%eth0", Address),
        ("[fe80::1%25eth0]", Address),
        ("[::1", Address),
        ("::1]", Address),
        ("[127.0.0.1]", Address),
        ("[example.org]", Address),
        ("[::1].", Address),
        ("[]", Address),
        ("example.org:443", Address),
        ("1.2.3.4.5", Address),
        ("1.2.3.256", Address),
        ("256.1", Address),
        ("1.2.65536", Address),
        ("4294967296", Address),
        ("08.0.0.1", Address),
        ("0x", Address),
        ("1.0x", Address),
        ("0xg.0x1", Address),
        ("example.1", Address),
        ("example.0x1", Address),
    ] {
        assert_eq!(shown(text), Err(expected), "{text:?}");
    }
    assert!(Host::parse(&"a".repeat(63)).is_ok());
    assert!(Host::parse(&format!("{}.", &name[2..])).is_ok());
}

#[test]
fn an_endpoint_has_its_port_or_the_default_one() {
    let shown = |text: &str, default| {
        Endpoint::parse(text, default)
            .map(|endpoint| endpoint.to_string())
            .map_err(|error| format!("{error:?}"))
    };
    for (text, default, expected) in [
        ("example.org", Some(443), Ok("example.org:443")),
        ("Example.org.:8443", Some(443), Ok("example.org:8443")),
        ("example.org:1", None, Ok("example.org:1")),
        ("example.org:65535", None, Ok("example.org:65535")),
        ("[::1]", Some(80), Ok("[::1]:80")),
        ("[::1]:81", None, Ok("[::1]:81")),
        ("0x7f.1:80", None, Ok("127.0.0.1:80")),
        ("example.org", None, Err("Port")),
        ("example.org:", Some(443), Err("Port")),
        ("example.org:0", None, Err("Port")),
        ("example.org:65536", None, Err("Port")),
        ("example.org:000443", None, Err("Port")),
        ("example.org:+80", None, Err("Port")),
        ("example.org: 80", None, Err("Port")),
        ("example.org:https", None, Err("Port")),
        (":443", None, Err("Empty")),
        ("::1", Some(443), Err("Address")),
        ("::1:443", None, Err("Address")),
        ("[::1]443", Some(443), Err("Address")),
        ("[::1]x:443", None, Err("Address")),
        ("[::1]:443]:80", None, Err("Address")),
        ("user@example.org:443", None, Err("Character")),
        ("user:word@example.org:443", None, Err("Address")),
    ] {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(shown(text, default), expected, "{text}");
    }
}

/// Texts near to hosts: names, numbers in every base, addresses, and what breaks them.
fn near_hosts() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<u8>().prop_map(|n| n.to_string()),
        any::<u32>().prop_map(|n| n.to_string()),
        any::<u16>().prop_map(|n| format!("0{n:o}")),
        any::<u32>().prop_map(|n| format!("0x{n:x}")),
        any::<u8>().prop_map(|n| format!("0X{n:X}")),
        any::<u8>().prop_map(|n| format!("0b{n:b}")),
    ];
    let numbers = prop::collection::vec(number, 1..6).prop_map(|numbers| numbers.join("."));
    prop_oneof![
        "[\\x00-\\x7f]{0,24}",
        "[a-zA-Z0-9_.-]{0,24}",
        "([a-z0-9]{1,5}[.-]){0,4}[a-zA-Z0-9]{1,8}\\.?",
        "(xn--)?[a-z0-9-]{1,12}\\.[a-z]{2,3}",
        "[0-9a-fxXobB.+-]{1,16}",
        numbers.clone(),
        (numbers, "[ .%:@a\\x00]{1,2}").prop_map(|(numbers, end)| numbers + &end),
        "\\[?[0-9a-fA-F:]{2,20}(%[a-z0-9]{1,3})?\\]?",
        any::<u128>().prop_map(|bits| Ipv6Addr::from(bits).to_string()),
        any::<u32>().prop_map(|bits| format!("::ffff:{}", Ipv4Addr::from(bits))),
        any::<u32>().prop_map(|bits| format!("::{}", Ipv4Addr::from(bits))),
    ]
}

/// What a client that parses URLs would take for the host.
fn by_url(text: &str) -> Option<Host> {
    let bare = text.contains(':') && !text.starts_with('[');
    let url = if bare {
        format!("http://[{text}]/")
    } else {
        format!("http://{text}/")
    };
    Some(match Url::parse(&url).ok()?.host()? {
        // Of the dots at its end we strip one; a URL keeps them.
        url::Host::Domain(name) => {
            Host::Name(DnsName(name.strip_suffix('.').unwrap_or(name).to_owned()))
        }
        url::Host::Ipv4(address) => Host::Ip(IpAddr::V4(address)),
        url::Host::Ipv6(address) => Host::Ip(IpAddr::V6(address).to_canonical()),
    })
}

/// What the C library takes for an address.
fn by_getaddrinfo(text: &str) -> Option<IpAddr> {
    let hints = AddrInfoHints {
        flags: NUMERIC_HOST,
        ..AddrInfoHints::default()
    };
    let mut found = getaddrinfo(Some(text), None, Some(hints)).ok()?;
    Some(found.next()?.ok()?.sockaddr.ip().to_canonical())
}

#[test]
fn the_others_are_really_asked() {
    assert_eq!(by_getaddrinfo("0x7f.1"), Some(Ipv4Addr::LOCALHOST.into()));
    assert_eq!(by_getaddrinfo("example.org"), None);
    assert_eq!(by_url("0x7f.1"), Some(Host::Ip(Ipv4Addr::LOCALHOST.into())));
    assert_eq!(by_url("exa mple.org"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn what_parses_shows_as_what_parses_to_itself(text in prop_oneof![near_hosts(), any::<String>()]) {
        if let Ok(host) = Host::parse(&text) {
            let shown = host.to_string();
            prop_assert!(shown.is_ascii());
            prop_assert_eq!(Host::parse(&shown), Ok(host));
        }
    }

    #[test]
    fn an_endpoint_shows_as_what_parses_to_itself(text in near_hosts(), port in any::<u16>()) {
        if let Ok(endpoint) = Endpoint::parse(&format!("{text}:{port}"), None) {
            prop_assert_eq!(endpoint.port, port);
            prop_assert_eq!(Endpoint::parse(&endpoint.to_string(), None), Ok(endpoint));
        }
    }

    #[test]
    fn a_name_has_only_the_characters_of_names(text in any::<String>()) {
        if let Ok(Host::Name(name)) = Host::parse(&text) {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
            prop_assert!(name.as_str().bytes().all(plain));
        }
    }

    #[test]
    fn a_url_with_the_same_text_has_the_same_host(text in near_hosts()) {
        if let Ok(ours) = Host::parse(&text) {
            let theirs = by_url(&text);
            // Whether an international label decodes to something is no concern of ours: it is sent as it is.
            if theirs.is_some() || !ours.to_string().contains("xn--") {
                prop_assert_eq!(theirs, Some(ours));
            }
        }
    }

    #[test]
    fn what_the_c_library_takes_for_an_address_is_that_address_or_no_host(text in near_hosts()) {
        if let Some(theirs) = by_getaddrinfo(&text)
            && let Ok(ours) = Host::parse(&text)
        {
            prop_assert_eq!(ours, Host::Ip(theirs));
        }
    }
}
