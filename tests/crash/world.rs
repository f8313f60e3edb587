//! What outlives the servers: the state directory, the user's folder, and what the dead ones had promised. It is looked
//! through after some of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use belljar::types::Sha256;
use belljar_test_client::{
    Server as Client,
    left::{self, children, containers, named_after, walk},
};
use belljar_test_upstream::{Options, Upstream};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Server, Way, command, until_none};

/// Bytes of a file of the user's that is uploaded.
pub(crate) const GIVEN: u64 = 100_000;
/// Promises of each kind that a look puts to the test by a call; the store itself is looked through whole.
const ASKED: usize = 4;
/// How long after a start anything of the dead may still be there, as SECURITY.md says.
const PROMISED: Duration = Duration::from_secs(30);
/// How often a program is tried whose sandbox is given up.
const TRIES: usize = 3;

/// What answers said before their server died. All of it is so many bytes `x`.
#[derive(Default)]
pub(crate) struct Promised {
    pub(crate) artifacts: Vec<(String, u64)>,
    pub(crate) uploads: Vec<(String, u64)>,
    pub(crate) saved: Vec<(String, u64)>,
    pub(crate) runs: Vec<String>,
}

pub(crate) struct World {
    way: Way,
    state: TempDir,
    folder: TempDir,
    upstream: Upstream,
    /// Runs the upstream.
    _runtime: tokio::runtime::Runtime,
    pub(crate) promised: Promised,
    /// All instances ever.
    instances: BTreeSet<String>,
    /// How long the slowest clean-up took.
    longest: Duration,
    torn: usize,
    looks: usize,
}

impl World {
    pub(crate) fn new(way: Way) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let upstream = runtime.block_on(Upstream::start(Options::default()));
        let state = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let port = upstream.plain().port();
        let text = format!(
            "[concurrency]\nmax_sandboxes = 5\n[pool]\nmax = 3\nmin = 1\n\
             [egress.lab]\nallow = [\"http://lab.test:{port}\"]\n\
             resolve = {{ \"lab.test\" = [\"127.0.0.1\"] }}\nallow_private = [\"127.0.0.1/32\"]\n"
        );
        fs::write(config(state.path()), text).unwrap();
        let given = "x".repeat(usize::try_from(GIVEN).unwrap());
        fs::write(folder.path().join("given.txt"), given).unwrap();
        Self {
            way,
            state,
            folder,
            upstream,
            _runtime: runtime,
            promised: Promised::default(),
            instances: BTreeSet::new(),
            longest: Duration::ZERO,
            torn: 0,
            looks: 0,
        }
    }

    pub(crate) fn state(&self) -> &Path {
        self.state.path()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn port(&self) -> u16 {
        self.upstream.plain().port()
    }

    pub(crate) fn start(&mut self) -> Server {
        let server = Server::start(
            self.way,
            self.state.path(),
            self.folder.path(),
            &self.instances,
        );
        self.instances.insert(server.instance.clone());
        server
    }

    pub(crate) fn summary(&self) -> String {
        let Promised {
            artifacts,
            uploads,
            saved,
            runs,
        } = &self.promised;
        format!(
            "{} servers, {} looks; answered before their end: {} runs, {} artifacts, {} uploads, {} saved files; {} torn last \
             lines; everything was gone after at most {:.1} s",
            self.instances.len(),
            self.looks,
            runs.len(),
            artifacts.len(),
            uploads.len(),
            saved.len(),
            self.torn,
            self.longest.as_secs_f64(),
        )
    }

    /// Starts a server that nobody kills, and looks through everything that those before it left.
    pub(crate) fn look(&mut self) {
        let dead = self.instances.clone();
        let started = Instant::now();
        let mut server = self.start();
        until_none("containers of the dead", || containers(&dead));
        until_none("volumes and images of the dead", || volumes(&dead));
        until_none("files of the dead", || self.strangers(&server));
        until_none("contents without an entry", || {
            let (blobs, named) = self.store();
            blobs.difference(&named).cloned().collect()
        });
        self.longest = self.longest.max(started.elapsed());
        assert!(
            self.longest <= PROMISED,
            "gone only after {:?}",
            self.longest
        );
        self.keeps_promises(&mut server.client);
        self.the_store_is_whole();
        self.the_record_is_whole();
        let instance = server.instance.clone();
        server.stop();
        assert_eq!(containers(&self.instances), BTreeSet::new());
        self.the_dead_are_forgotten(&instance);
        self.looks += 1;
    }

    /// Files of the state directory and the user's folder that should not be there while only this server lives.
    fn strangers(&self, live: &Server) -> BTreeSet<PathBuf> {
        let mut left = left::strangers(self.state(), Some(&live.instance));
        // Whole files under the names that were asked for.
        let hidden = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with('.');
        left.extend(walk(self.folder()).into_iter().filter(hidden));
        left
    }

    /// The contents there are, and those that entries name.
    fn store(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let store = self.state.path().join("artifacts");
        let blobs = walk(&store.join("blobs")).into_iter().map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.to_owned()
        });
        let named = self.entries().into_values();
        let named = named.map(|entry| entry["sha256"].as_str().unwrap().to_owned());
        (blobs.collect(), named.collect())
    }

    fn entries(&self) -> BTreeMap<PathBuf, Value> {
        let paths = walk(&self.state.path().join("artifacts/entries"));
        let read = paths.into_iter().map(|path| {
            let text = fs::read(&path).unwrap();
            let entry = serde_json::from_slice(&text);
            let entry = entry.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path, entry)
        });
        read.collect()
    }

    fn the_store_is_whole(&self) {
        let blobs = self.state.path().join("artifacts/blobs");
        for path in walk(&blobs) {
            let content = fs::read(&path).unwrap();
            let name = Sha256::of(&content).to_string();
            assert!(path.ends_with(&name), "{} is {name}", path.display());
        }
        for (path, entry) in self.entries() {
            let sha256 = entry["sha256"].as_str().unwrap();
            let about = fs::metadata(blobs.join(&sha256[..2]).join(sha256));
            let about = about.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(entry["bytes"], about.len(), "{}", path.display());
        }
        for path in walk(self.folder.path()) {
            let content = fs::read(&path).unwrap();
            assert!(
                content.iter().all(|&byte| byte == b'x'),
                "{}",
                path.display()
            );
        }
        for (path, size) in &self.promised.saved {
            let about = fs::metadata(path);
            assert_eq!(
                about.expect("it was said to be saved").len(),
                *size,
                "{path}"
            );
        }
    }

    /// What was answered can be had: the newest of each kind, and the oldest.
    fn keeps_promises(&self, server: &mut Client) {
        let result = run(server, &json!({"language": "bash", "code": "echo here"}));
        assert_eq!(result["stdout"]["text"], "here\n", "{result}");
        for (id, size) in ends(&self.promised.artifacts) {
            let ask = json!({"artifact_id": id, "offset": 0, "length": 16});
            let told = server.ok("fetch_artifact", &ask);
            assert_eq!(told["bytes"], *size, "{told}");
            let whole = "x".repeat(usize::try_from(*size).unwrap());
            assert_eq!(told["sha256"], Sha256::of(whole.as_bytes()).to_string());
        }
        for (id, size) in ends(&self.promised.uploads) {
            let files = json!([{"path": "in.txt", "file_id": id}]);
            let ask = json!({"language": "bash", "code": "tr -d x <in.txt; wc -c <in.txt", "files": files});
            let told = run(server, &ask);
            assert_eq!(told["stdout"]["text"], format!("{size}\n"), "{told}");
        }
        // Every artifact and upload has its entry; its content was compared with it.
        let entries = self.entries();
        let names: BTreeSet<&str> = entries
            .keys()
            .filter_map(|path| path.file_stem()?.to_str())
            .collect();
        for (id, _) in &self.promised.artifacts {
            assert!(names.contains(id.as_str()), "artifact {id}");
        }
        for (id, _) in &self.promised.uploads {
            assert!(
                names.contains(format!("upload-{id}").as_str()),
                "upload {id}"
            );
        }
    }

    /// Every chain holds, and every run that was answered is on record, with its beginning.
    fn the_record_is_whole(&mut self) {
        let verified = command(self.state.path())
            .args(["audit", "verify"])
            .output()
            .unwrap();
        let said = String::from_utf8(verified.stdout).unwrap();
        assert!(verified.status.success(), "{said}");
        assert_eq!(said.lines().count(), self.instances.len(), "{said}");
        self.torn = said
            .lines()
            .filter(|line| line.starts_with("torn "))
            .count();
        let mut begun = BTreeSet::new();
        let mut ended = BTreeSet::new();
        for line in left::audit(self.state()) {
            let id = line["run_id"].as_str().unwrap_or_default().to_owned();
            match line["action"].as_str() {
                Some("begin_run") => drop(begun.insert(id)),
                Some("run_code") => drop(ended.insert(id)),
                _ => {}
            }
        }
        for run in &self.promised.runs {
            assert!(begun.contains(run) && ended.contains(run), "run {run}");
        }
    }

    /// What a server that stops in good order leaves is at most what is known of the dead; once that is old enough, nothing.
    fn the_dead_are_forgotten(&self, last: &str) {
        let files = self.state.path().join("instances");
        for path in walk(&files) {
            assert_eq!(path, files.join(format!("{last}.lock")));
            let text = fs::read_to_string(&path).unwrap();
            let aged = text.lines().map(|line| {
                let mut line: Value = serde_json::from_str(line).unwrap();
                if let Some(ended) = line["state"].get_mut("ended") {
                    *ended = json!(0);
                }
                format!("{line}\n")
            });
            fs::write(&path, aged.collect::<String>()).unwrap();
        }
        let reaped = command(self.state.path()).arg("reap").output().unwrap();
        assert!(reaped.status.success(), "{reaped:?}");
        assert_eq!(walk(&files), BTreeSet::new());
        let scratch = children(&self.state.path().join("artifacts/tmp"));
        assert!(scratch.is_empty(), "{scratch:?}");
    }
}

impl Drop for World {
    /// A test that fails leaves nothing either: with the state directory goes what a later server would find it by.
    fn drop(&mut self) {
        let list = ["ps", "--all", "--format", "{{.Names}}"];
        let of = &self.instances;
        // Never a panic in a panic: what the daemon does not say then stays.
        let Ok(listed) = Command::new("docker").args(list).output() else {
            return;
        };
        for name in String::from_utf8_lossy(&listed.stdout).lines() {
            if of.iter().any(|instance| name.contains(instance.as_str())) {
                let _ = Command::new("docker")
                    .args(["rm", "--force", "--volumes", name])
                    .output();
            }
        }
    }
}

/// Runs a program. On a machine that is so busy that a guest does not answer for seconds its sandbox is given up, which is
/// no matter here: another one is asked for.
fn run(server: &mut Client, ask: &Value) -> Value {
    let mut told = Value::Null;
    for _ in 0..TRIES {
        told = server.ok("run_code", ask);
        if told["status"] != "sandbox_lost" {
            break;
        }
    }
    told
}

/// What seeding leaves: volumes and images that bear the name of one of these.
fn volumes(of: &BTreeSet<String>) -> BTreeSet<String> {
    let images = ["image", "ls", "--format", "{{.Repository}}:{{.Tag}}"];
    let mut left = named_after(of, &images);
    let pointers = ["volume", "ls", "--format", "{{.Label \"belljar.volume\"}}"];
    let pointers = left::docker(&pointers);
    let volumes = named_after(of, &["volume", "ls", "--quiet"]);
    // The guest's own stays.
    left.extend(volumes.difference(&pointers).cloned());
    left
}

fn ends<T>(all: &[T]) -> impl Iterator<Item = &T> {
    let last = all.len().saturating_sub(ASKED).max(ASKED.min(all.len()));
    all[..ASKED.min(all.len())].iter().chain(&all[last..])
}

pub(crate) fn config(state: &Path) -> PathBuf {
    state.join("belljar.toml")
}
