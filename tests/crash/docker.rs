//! What the daemon says, asked with the `docker` command: not with the code that is tested.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

/// What happens to containers: an action and the container's name, as it comes.
pub(crate) struct Events {
    process: Child,
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Events {
    pub(crate) fn follow() -> Self {
        let mut process = Command::new("docker")
            .args(["events", "--filter", "type=container", "--format"])
            .arg("{{.Action}} {{.Actor.Attributes.name}}")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the docker command");
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((action, name)) = line.split_once(' ') {
                    let event = (action.to_owned(), name.to_owned());
                    kept.lock().unwrap().push(event);
                }
            }
        });
        Self { process, seen }
    }

    /// How often this happened to containers of this instance.
    pub(crate) fn count(&self, action: &str, instance: &str) -> u64 {
        let seen = self.seen.lock().unwrap();
        let hits = seen
            .iter()
            .filter(|(what, name)| what == action && name.contains(instance));
        hits.count() as u64
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
