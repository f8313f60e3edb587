//! The effective settings as TOML that would be read back as the same settings.

use std::fmt::Write as _;

use super::{
    ConfigError, Settings,
    raw::{
        RawArtifacts, RawCeiling, RawConcurrency, RawConfig, RawDocker, RawFiles, RawLanguage,
        RawLimits, RawPool, RawSessions,
    },
};
use crate::{images::Image, types::visible::escape_name};

impl Settings {
    /// The effective settings, every key with its value, for `belljar config show`. Built-in languages and where
    /// the settings come from stand in comments.
    pub fn show(&self) -> Result<String, ConfigError> {
        let mut text = match self.origin.path() {
            // Escaped, so that a line feed in a name cannot end the comment.
            Some(path) => {
                let path = escape_name(path.display().to_string().as_bytes());
                format!("# from {path} ({})\n", self.origin)
            }
            None => format!("# {}\n", self.origin),
        };
        text.push_str(&toml::to_string_pretty(&self.raw())?);
        for image in self.languages.built_in() {
            let runs = super::language::list(image.languages.iter());
            // Writing to a `String` cannot fail.
            let _ = write!(text, "\n# built in: {} runs {runs}", image.tag);
        }
        text.push('\n');
        Ok(text)
    }

    fn raw(&self) -> RawConfig {
        let (default, ceiling) = (&self.limits.default, &self.limits.ceiling);
        RawConfig {
            structured_content: Some(self.structured_content),
            limits: RawLimits {
                memory_mib: Some(default.memory_mib),
                cpus: Some(default.cpus.as_f64()),
                pids: Some(default.pids),
                workspace_mib: Some(default.workspace_mib),
                output_kib: Some(default.output_kib),
                timeout_seconds: Some(self.limits.timeout.duration().as_secs_f64()),
                ceiling: RawCeiling {
                    memory_mib: Some(ceiling.memory_mib),
                    cpus: Some(ceiling.cpus.as_f64()),
                    pids: Some(ceiling.pids),
                    workspace_mib: Some(ceiling.workspace_mib),
                    output_kib: Some(ceiling.output_kib),
                    timeout_seconds: Some(self.limits.timeout_ceiling.duration().as_secs_f64()),
                },
            },
            sessions: RawSessions {
                ttl_seconds: Some(self.sessions.ttl.as_secs()),
                ttl_ceiling_seconds: Some(self.sessions.ttl_ceiling.as_secs()),
                idle_seconds: Some(self.sessions.idle.as_secs()),
                max: Some(self.sessions.max),
            },
            concurrency: RawConcurrency {
                max_sandboxes: Some(self.concurrency.max_sandboxes),
                queue: Some(self.concurrency.queue),
            },
            pool: RawPool {
                max: Some(self.pool.max),
                min: Some(self.pool.min),
                idle_seconds: Some(self.pool.idle.as_secs()),
                languages: Some(self.pool.languages.clone()),
            },
            artifacts: RawArtifacts {
                ttl_seconds: Some(self.artifacts.ttl.as_secs()),
                cap_mib: Some(self.artifacts.cap_mib),
            },
            docker: RawDocker {
                host: self.docker.host.clone(),
                runtime: self.docker.runtime.clone(),
            },
            files: RawFiles {
                read: self.files.read.clone(),
                read_write: self.files.read_write.clone(),
            },
            language: self
                .languages
                .configured()
                .iter()
                .filter_map(|image| raw_language(image))
                .collect(),
            egress: self.egress.raw_profiles(),
            secrets: self.egress.raw_secrets(),
        }
    }
}

fn raw_language(image: &Image) -> Option<RawLanguage> {
    let language = image.languages.first()?.clone();
    Some(RawLanguage {
        name: language.name,
        aliases: language.aliases,
        image: image.tag.clone(),
        program: language.program,
        command: language.command,
        env: language.env,
        shm_mib: Some(image.shm_mib),
    })
}
