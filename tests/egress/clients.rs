//! The clients that programs use, unchanged, find the way out by themselves.

use crate::support::World;

const CONFIG: &str = r#"
[egress.lab]
allow = ["files.lab.test:{tls}", "http://plain.lab.test:{plain}", { host = "pinned.lab.test:{tls}", tunnel = true }]
resolve = {names}
allow_private = ["127.0.0.1/32"]
upstream_ca = "{ca}"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn pythons_clients() {
    let world = World::new(CONFIG).await;
    let ran = world
        .python(
            "lab",
            r#"
import requests, http.client
for url in [f"https://files.lab.test:{TLS}/echo", f"http://plain.lab.test:{PLAIN}/echo", f"https://pinned.lab.test:{TLS}/echo"]:
    print("urllib", urllib.request.urlopen(url, timeout=20).status)
    print("requests", requests.get(url, timeout=20).status_code)
with requests.Session() as session:
    for n in range(5):
        session.post(f"https://files.lab.test:{TLS}/echo", data=b"x" * 100_000, timeout=20).raise_for_status()
answer = requests.get(f"https://files.lab.test:{TLS}/huge?mib=8", timeout=60)
print("huge", len(answer.content))
try:
    requests.get(f"https://other.lab.test:{TLS}/", timeout=20)
except requests.exceptions.ProxyError as error:
    print("denied", "host_not_allowed" in str(error))
"#,
        )
        .await;
    let stdout = ran.ok();
    assert_eq!(stdout.matches(" 200\n").count(), 6, "{stdout}");
    assert!(stdout.contains("huge 8388608\n"), "{stdout}");
    assert!(stdout.contains("denied True\n"), "{stdout}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_and_git() {
    let world = World::new(CONFIG).await;
    let code = r#"
for version in --http1.1 --http2; do
    curl -sS $version -o /dev/null -w "curl %{http_code} %{http_version}\n" https://files.lab.test:$TLS/echo
done
curl -sS -o /dev/null -w "plain %{http_code}\n" http://plain.lab.test:$PLAIN/echo
curl -sS -o /dev/null -w "tunnel %{http_code}\n" https://pinned.lab.test:$TLS/echo
curl -sS -o /dev/null -w "socks %{http_code}\n" --proxy "socks5h://${ALL_PROXY#http://}" https://files.lab.test:$TLS/echo
curl -sS https://other.lab.test:$TLS/ 2>&1
git ls-remote https://files.lab.test:$TLS/repository 2>&1
true
"#;
    let ran = world.run("bash", "lab", code).await;
    let stdout = ran.ok();
    for line in [
        "curl 200 1.1",
        "curl 200 2",
        "plain 200",
        "tunnel 200",
        "socks 200",
    ] {
        assert!(
            stdout.lines().any(|found| found == line),
            "{line}: {stdout}"
        );
    }
    assert!(stdout.contains("403"), "{stdout}");
    let seen = world.upstream.seen();
    assert!(
        seen.iter()
            .any(|seen| seen.target.starts_with("/repository/info/refs")),
        "{stdout}\n{seen:?}"
    );
    world.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_node() {
    let world = World::new(CONFIG).await;
    let code = r"
const https = require('node:https'), http = require('node:http');
const tls = process.env.TLS, plain = process.env.PLAIN;
const get = (module, url) => new Promise((resolve, reject) =>
    module.get(url, (answer) => { answer.resume(); answer.on('end', () => resolve(answer.statusCode)); }).on('error', reject));
(async () => {
    console.log('fetch', (await fetch(`https://files.lab.test:${tls}/echo`)).status);
    console.log('fetch', (await fetch(`http://plain.lab.test:${plain}/echo`)).status);
    console.log('https', await get(https, `https://files.lab.test:${tls}/echo`));
    console.log('http', await get(http, `http://plain.lab.test:${plain}/echo`));
    try { await fetch(`https://other.lab.test:${tls}/`); console.log('reached'); }
    catch (error) { console.log('denied', String(error.cause || error)); }
})();
";
    let ran = world.run("javascript", "lab", code).await;
    let stdout = ran.ok();
    assert_eq!(stdout.matches(" 200\n").count(), 4, "{stdout}");
    assert!(stdout.contains("denied"), "{stdout}");
    assert_eq!(ran.denied(), ["host_not_allowed"]);
    world.close().await;
}
