//! The hardening that belljar gives a container, read back from one that it made, so that every other candidate gets
//! exactly the same: as flags of `docker run`, and as the body of a create call.
//!
//! Never lists a flag by heart: what belljar hardens next is in both rivals by itself.

use std::{fs, time::Duration};

use anyhow::{Context as _, ensure};
use bollard::models::ContainerCreateBody;
use serde_json::{Value, json};

use crate::{client::Server, docker, program::Language};

/// Variables that bash makes itself.
const OF_BASH: [&str; 4] = ["_", "PWD", "OLDPWD", "SHLVL"];
/// How long the container of a session may take to show in the daemon's list.
const SHOWS: Duration = Duration::from_secs(5);

/// What a container of belljar's is made of.
pub(crate) struct Blueprint {
    config: Value,
    host: Value,
    /// What belljar gives to each program.
    env: Vec<String>,
    /// Holds the seccomp profile, which `docker run` takes as a file.
    folder: tempfile::TempDir,
}

impl Blueprint {
    /// Reads it back from a session in a server with this configuration.
    pub(crate) fn read(config: &str, language: &Language) -> anyhow::Result<Self> {
        let server = Server::start(config, &[])?;
        let session = server.open_session(language.name)?;
        let env = environment(&server, &session)?;
        let label = format!("label=belljar.session={session}");
        let began = std::time::Instant::now();
        let id = loop {
            let id = docker::command(&["ps", "--no-trunc", "--quiet", "--filter", &label])?;
            if !id.is_empty() || began.elapsed() > SHOWS {
                break id;
            }
        };
        ensure!(!id.is_empty(), "no container has {label}");
        let inspected: Value =
            serde_json::from_str(&docker::command(&["inspect", &id])?).context("inspect")?;
        server.stop()?;
        let folder = tempfile::tempdir().context("make a folder for the seccomp profile")?;
        Ok(Self {
            config: inspected[0]["Config"].clone(),
            host: inspected[0]["HostConfig"].clone(),
            env,
            folder,
        })
    }

    /// The arguments of `docker run` for this command in such a container.
    pub(crate) fn docker_run(
        &self,
        further: &[&str],
        command: &[&str],
    ) -> anyhow::Result<Vec<String>> {
        let (config, host) = (&self.config, &self.host);
        let mut all = vec!["run".to_owned(), "--rm".to_owned()];
        all.extend(further.iter().map(|flag| (*flag).to_owned()));
        let mut flag = |name: &str, value: &str| all.push(format!("--{name}={value}"));
        flag("read-only", &host["ReadonlyRootfs"].to_string());
        flag("network", text(&host["NetworkMode"])?);
        flag("ipc", text(&host["IpcMode"])?);
        flag("cgroupns", text(&host["CgroupnsMode"])?);
        flag("runtime", text(&host["Runtime"])?);
        flag("log-driver", text(&host["LogConfig"]["Type"])?);
        flag("user", text(&config["User"])?);
        flag("hostname", text(&config["Hostname"])?);
        flag("workdir", text(&config["WorkingDir"])?);
        flag("memory", &host["Memory"].to_string());
        flag("memory-swap", &host["MemorySwap"].to_string());
        flag("pids-limit", &host["PidsLimit"].to_string());
        flag("shm-size", &host["ShmSize"].to_string());
        flag("oom-score-adj", &host["OomScoreAdj"].to_string());
        let cpus = host["NanoCpus"].as_f64().context("NanoCpus")? / 1e9;
        flag("cpus", &cpus.to_string());
        for capability in list(&host["CapDrop"]) {
            flag("cap-drop", text(capability)?);
        }
        for server in list(&host["Dns"]) {
            flag("dns", text(server)?);
        }
        for domain in list(&host["DnsSearch"]) {
            flag("dns-search", text(domain)?);
        }
        for limit in list(&host["Ulimits"]) {
            let (name, soft, hard) = (text(&limit["Name"])?, &limit["Soft"], &limit["Hard"]);
            flag("ulimit", &format!("{name}={soft}:{hard}"));
        }
        for (path, options) in host["Tmpfs"].as_object().context("Tmpfs")? {
            flag("tmpfs", &format!("{path}:{}", text(options)?));
        }
        for option in list(&host["SecurityOpt"]) {
            let option = text(option)?;
            match option.strip_prefix("seccomp=") {
                Some(profile) => {
                    let file = self.folder.path().join("seccomp.json");
                    fs::write(&file, profile).context("write the seccomp profile")?;
                    flag("security-opt", &format!("seccomp={}", file.display()));
                }
                None => flag("security-opt", option),
            }
        }
        for variable in &self.env {
            flag("env", variable);
        }
        let (program, arguments) = command.split_first().context("a command")?;
        flag("entrypoint", program);
        all.push(text(&config["Image"])?.to_owned());
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        Ok(all)
    }

    /// The body of a create call for this command in such a container, without belljar's labels: the servers that
    /// run must not take it for one of theirs.
    pub(crate) fn create(&self, command: &[&str]) -> anyhow::Result<ContainerCreateBody> {
        let mut body = self.config.clone();
        body["HostConfig"] = self.host.clone();
        body["Labels"] = json!({});
        body["Entrypoint"] = json!(command);
        body["Cmd"] = json!([]);
        body["Env"] = json!(self.env);
        serde_json::from_value(body).context("a create call of what was inspected")
    }
}

/// The environment of a program, from one.
fn environment(server: &Server, session: &str) -> anyhow::Result<Vec<String>> {
    let ask = json!({"language": "bash", "session": session, "code": "env"});
    let result = server.call("run_code", &ask)?;
    let text = text(&result["stdout"]["text"])?.to_owned();
    let ours = |line: &&str| {
        line.split_once('=')
            .is_some_and(|(name, _)| !OF_BASH.contains(&name))
    };
    Ok(text.lines().filter(ours).map(str::to_owned).collect())
}

fn text(value: &Value) -> anyhow::Result<&str> {
    value
        .as_str()
        .with_context(|| format!("a text instead of {value}"))
}

/// Docker writes an empty list as null.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
