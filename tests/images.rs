//! What every built-in image promises to the code that runs in it, tried on the images themselves.
//!
//! Needs a Docker daemon and the images; without them it fails and says how to get them. The images are run by
//! plain `docker run`, read-only and unprivileged as sandboxes are: this tests the images, not the engine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::process::{Command, Output};

use belljar::images::{BuiltIn, Context, LABEL_VERSION, catalogue};

/// One of the range, neither its first nor its last.
const UID: u32 = 52_007;

fn docker(args: &[&str]) -> Output {
    Command::new("docker").args(args).output().expect(
        "the `docker` command is missing: install Docker (on Debian or Ubuntu `make demo` does it)",
    )
}

fn image(name: &str) -> BuiltIn {
    let found = catalogue()
        .unwrap()
        .into_iter()
        .find(|one| one.image.name == name);
    let found = found.unwrap();
    let tag = &found.image.tag;
    let seen = docker(&["image", "inspect", "--format", "{{.Id}}", tag]);
    assert!(
        seen.status.success(),
        "{tag} is missing: start Docker, then run `make images` ({})",
        String::from_utf8_lossy(&seen.stderr).trim()
    );
    found
}

/// Runs a shell script in an image as a sandbox would, and returns what it printed.
fn run(name: &str, script: &str) -> String {
    let image = image(name);
    let user = format!("{UID}:{UID}");
    let workspace = format!("/workspace:exec,size=256m,mode=1777,uid={UID},gid={UID}");
    let mut args = vec![
        "run",
        "--rm",
        "--read-only",
        "--network",
        "none",
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges",
        "--pids-limit",
        "128",
        "--user",
        &user,
        "--workdir",
        "/workspace",
        "--tmpfs",
        "/tmp:size=64m",
        "--tmpfs",
        &workspace,
        "--env",
        "HOME=/workspace/.home",
        "--env",
        "LANG=C.UTF-8",
    ];
    let env: Vec<String> = image
        .image
        .env
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    for variable in &env {
        args.extend(["--env", variable]);
    }
    // What the guest does when a sandbox starts.
    let script = format!(
        "set -eu; mkdir ~; if [ -d /usr/share/belljar/skel ]; then cp -r /usr/share/belljar/skel/. ~/; fi\n{script}"
    );
    args.extend([image.image.tag.as_str(), "bash", "-c", &script]);
    let done = docker(&args);
    let (out, err) = (
        String::from_utf8_lossy(&done.stdout).trim().to_owned(),
        String::from_utf8_lossy(&done.stderr).trim().to_owned(),
    );
    assert!(
        done.status.success(),
        "{name}: {}\n{out}\n{err}",
        done.status
    );
    assert_eq!(err, "", "{name}: standard error");
    out
}

const ALL: [&str; 3] = ["python", "javascript", "bash"];

#[test]
fn the_images_are_those_of_this_source() {
    for name in ALL {
        let image = image(name);
        let format = format!("{{{{index .Config.Labels {LABEL_VERSION:?}}}}}");
        let seen = docker(&["image", "inspect", "--format", &format, &image.image.tag]);
        let version = Context::new(&image).unwrap().version;
        assert_eq!(
            String::from_utf8_lossy(&seen.stdout).trim(),
            version,
            "{name} is out of date: run `make images`"
        );
    }
}

#[test]
fn an_image_asks_for_nothing_of_docker() {
    for name in ALL {
        let image = image(name);
        let format = "{{json .Config.Volumes}} {{json .Config.Healthcheck}} {{json .Config.Entrypoint}} {{json .Config.User}}";
        let seen = docker(&["image", "inspect", "--format", format, &image.image.tag]);
        let seen = String::from_utf8_lossy(&seen.stdout).trim().to_owned();
        assert!(
            [r#"null null null """#, r#"null null [] """#].contains(&seen.as_str()),
            "{name}: {seen}"
        );
        let labels = docker(&[
            "image",
            "inspect",
            "--format",
            "{{json .Config.Labels}}",
            &image.image.tag,
        ]);
        let labels = String::from_utf8_lossy(&labels.stdout).into_owned();
        assert!(
            !labels.contains("\"belljar."),
            "labels of containers: {labels}"
        );
    }
}

#[test]
fn every_sandbox_user_has_a_name() {
    for name in ALL {
        let found = run(
            name,
            "awk -F: '/^sandbox/ && $1 == \"sandbox\" $3 && $3 == $4 && $6 == \"/workspace/.home\" && $7 == \"/bin/bash\" { print $3 }' /etc/passwd | sort -n | sed -n '1p;$p'
             grep -c ^sandbox /etc/passwd; grep -c ^sandbox /etc/group; whoami; id -gn",
        );
        assert_eq!(
            found.lines().collect::<Vec<_>>(),
            [
                "52000",
                "54047",
                "2048",
                "2048",
                "sandbox52007",
                "sandbox52007"
            ],
            "{name}"
        );
    }
}

#[test]
fn nothing_in_an_image_lends_rights() {
    for name in ALL {
        let found = run(
            name,
            "find / -xdev -type f -perm /6000 2>/dev/null || true
             find / -xdev -type f -writable -not -path '/proc/*' -not -path '/workspace/*' 2>/dev/null || true",
        );
        assert_eq!(found, "", "{name}");
    }
}

#[test]
fn the_folders_that_programs_write_to_are_open() {
    for name in ALL {
        let tag = image(name).image.tag;
        let seen = docker(&[
            "run",
            "--rm",
            "--network",
            "none",
            &tag,
            "stat",
            "-c",
            "%a %n",
            "/tmp",
            "/workspace",
        ]);
        assert_eq!(
            String::from_utf8_lossy(&seen.stdout),
            "1777 /tmp\n1777 /workspace\n",
            "{name}"
        );
        let lists = docker(&[
            "run",
            "--rm",
            "--network",
            "none",
            &tag,
            "ls",
            "/var/lib/apt/lists",
        ]);
        assert_eq!(
            String::from_utf8_lossy(&lists.stdout),
            "",
            "{name}: apt's lists"
        );
    }
}

#[test]
fn git_ssh_and_the_locale_work() {
    for name in ALL {
        let found = run(
            name,
            r"git init -q r; cd r; git commit -q --allow-empty -m x; git log --format=%an
              ssh -o BatchMode=yes nowhere.invalid 2>&1 | grep -c 'resolve hostname'
              locale | grep -c 'C.UTF-8'; printf 'ä' | wc -m; TZ=Asia/Tokyo date -d @0 +%H; echo ~",
        );
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines[..2], ["sandbox", "1"], "{name}");
        assert!(lines[2].parse::<u32>().unwrap() > 5, "{name}: {found}");
        assert_eq!(lines[3..], ["1", "09", "/workspace/.home"], "{name}");
    }
}

#[test]
fn the_small_tools_are_in_all() {
    for name in ALL {
        let found = run(
            name,
            "for tool in awk bash bc bzip2 curl file find git grep jq less patch ps rg sed seq sort sqlite3 ssh tar \
             timeout tree unzip xz zip zstd; do command -v $tool >/dev/null || echo $tool; done
             echo '{\"a\": 1}' | jq .a; sqlite3 :memory: 'select 6 * 7'; echo '2 ^ 70' | bc; echo abc | rg -o b",
        );
        assert_eq!(found, "1\n42\n1180591620717411303424\nb", "{name}");
    }
}

#[test]
fn python_brings_its_libraries() {
    let found = run(
        "python",
        r#"cat >p.py <<'END'
import getpass, os, sys
import numpy, pandas, scipy.stats, sklearn.ensemble, sympy, seaborn, PIL.Image, requests, lxml.etree, bs4, openpyxl, tqdm
print(sys.version_info[:2] == (3, 13), getpass.getuser(), os.path.expanduser("~"))
print(numpy.linalg.det(numpy.eye(3)), sympy.factorial(20), scipy.stats.norm.cdf(0))
pandas.DataFrame({"a": [1, 2]}).to_excel("t.xlsx", index=False)
print(pandas.read_excel("t.xlsx").a.sum(), bs4.BeautifulSoup("<p>x</p>", "lxml").p.text)
print(sklearn.ensemble.RandomForestClassifier(5).fit([[0], [1]], [0, 1]).predict([[0]]).shape)
END
python p.py; python3 --version | cut -d. -f1,2; pip --version | cut -d' ' -f1; python -m venv v && v/bin/pip --version | cut -d' ' -f1"#,
    );
    assert_eq!(
        found,
        "True sandbox52007 /workspace/.home\n1.0 2432902008176640000 0.5\n3 x\n(1,)\nPython 3.13\npip\npip"
    );
}

#[test]
fn matplotlib_plots_without_a_screen_and_without_making_its_font_list() {
    let found = run(
        "python",
        r#"before=$(cd ~ && find . -type f -newermt @0 | sort; cat ~/.cache/matplotlib/fontlist-*.json | sha256sum)
python3 -W error -c 'import matplotlib.pyplot as p; p.plot([1, 2]); p.title("ä"); p.savefig("p.png"); print(p.get_backend())'
after=$(cd ~ && find . -type f -newermt @0 | sort; cat ~/.cache/matplotlib/fontlist-*.json | sha256sum)
[ "$before" = "$after" ] && echo same; head -c 8 p.png | od -An -c | tr -d ' '"#,
    );
    assert_eq!(found, "Agg\nsame\n211PNG\\r\\n032\\n");
}

#[test]
fn pip_installs_into_home() {
    // A wheel of our own, as there is no network.
    let found = run(
        "python",
        r#"python3 - <<'END'
import zipfile
with zipfile.ZipFile("tiny-1.0-py3-none-any.whl", "w") as z:
    z.writestr("tiny.py", "def main(): print('tiny')\n")
    z.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    z.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("tiny-1.0.dist-info/entry_points.txt", "[console_scripts]\ntiny = tiny:main\n")
    z.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\ntiny-1.0.dist-info/entry_points.txt,,\ntiny-1.0.dist-info/RECORD,,\n")
END
pip install --quiet --no-index ./tiny-1.0-py3-none-any.whl; tiny; python -c 'import tiny; print(tiny.__file__)'"#,
    );
    assert_eq!(
        found,
        "tiny\n/workspace/.home/.local/lib/python3.13/site-packages/tiny.py"
    );
}

#[test]
fn node_runs_both_kinds_of_modules() {
    let found = run(
        "javascript",
        r#"node --version | cut -d. -f1; npm --version | grep -c '^[0-9]'
echo 'import fs from "fs"; console.log(await 1, typeof fs.statSync)' >.main.js; node .main.js
echo 'console.log(typeof require("fs").statSync, new Intl.NumberFormat("de").format(1234.5))' >.main.js; node .main.js"#,
    );
    assert_eq!(found, "v20\n1\n1 function\nfunction 1.234,5");
}

#[test]
fn npm_installs_into_home() {
    let found = run(
        "javascript",
        r#"mkdir tiny; cd tiny
echo '{"name":"tiny","version":"1.0.0","bin":{"tiny":"t.js"}}' >package.json
printf '#!/usr/bin/env node\nconsole.log("tiny")\n' >t.js; npm pack --silent >/dev/null
npm install --silent --global --offline ./tiny-1.0.0.tgz; command -v tiny; tiny"#,
    );
    assert_eq!(found, "/workspace/.home/.local/bin/tiny\ntiny");
}

/// `images/javascript/proxy.js`: what node does not do by itself is done, and what a program chose stays.
#[test]
fn node_goes_through_the_proxy_that_variables_name() {
    let program = include_str!("fixtures/javascript/led.js");
    let script = format!("cat >led.js <<'END'\n{program}\nEND\nnode led.js");
    let mut expected = vec![
        "fetch: good.test /1",
        "fetch: good.test /2",
        "fetch: 403: belljar host_not_allowed",
        "fetch: ERR_TLS_CERT_ALTNAME_INVALID:",
        "fetch: EAI_AGAIN:",
        "fetch: 127.0.0.1 /3",
        "https: good.test /4",
        "http: good.test /5",
        "https: 403: belljar host_not_allowed",
        "https: ERR_TLS_CERT_ALTNAME_INVALID:",
        "https: ERR_TLS_CERT_ALTNAME_INVALID:",
        "http: localhost /6",
        "http to the proxy itself: 127.0.0.1 /7",
        "an agent of its own: EAI_AGAIN:",
        "a dispatcher of undici: good.test /8",
    ];
    // Connections to one server are used again.
    expected.extend([
        "seen: good.test:443",
        "seen: good.test:80",
        "seen: denied.test:443",
        "seen: other.test:443",
        "seen: good.test:443",
        "seen: good.test:80",
        "seen: denied.test:443",
        "seen: other.test:443",
        "seen: [::2]:443",
    ]);
    let found = run("javascript", &script);
    let found: Vec<&str> = found.lines().map(str::trim_end).collect();
    assert_eq!(found, expected);
}

#[test]
fn without_variables_node_is_left_alone() {
    let script = r#"node --require=/usr/lib/belljar/proxy.js -e '
        const known = Object.getOwnPropertySymbols(globalThis).includes(Symbol.for("undici.globalDispatcher.1"));
        const own = Object.hasOwn(require("https").globalAgent, "createConnection");
        console.log(known, own, Object.keys(require.cache).length);'"#;
    assert_eq!(run("javascript", script), "false false 0");
}
