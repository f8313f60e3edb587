//! What can be run: the built-in images and the operator's, and the names that lead to them.

use std::{collections::BTreeMap, sync::Arc};

use super::{Problem, raw::RawLanguage};

/// The mark in a command that stands for the program's absolute path.
pub const PROGRAM_MARK: &str = "{program}";
/// The longest name or alias, in bytes.
const MAX_NAME_BYTES: usize = 32;
/// The longest reference of an image, in bytes: as registries have it.
const MAX_IMAGE_BYTES: usize = 255;
/// The longest file name of a program, in bytes.
const MAX_PROGRAM_BYTES: usize = 64;
/// The most words of a command.
const MAX_COMMAND_WORDS: usize = 32;
/// `/dev/shm` of an image that says nothing, in MiB.
const DEFAULT_SHM_MIB: u32 = 16;
/// The largest `/dev/shm`, in MiB: it counts as memory of the sandbox.
const MAX_SHM_MIB: u32 = 1024;

/// An image that sandboxes are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its short name.
    pub name: String,
    /// Its reference on the daemon.
    pub tag: String,
    /// Size of `/dev/shm` in MiB.
    pub shm_mib: u32,
    /// Variables of every program in it.
    pub env: BTreeMap<String, String>,
    /// What it runs; the first is its own.
    pub languages: Vec<Language>,
}

/// A language as one image runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Language {
    /// Its name.
    pub name: String,
    /// Further names.
    pub aliases: Vec<String>,
    /// The hidden file name that the code is given.
    pub program: String,
    /// The command that runs it, with [`PROGRAM_MARK`] for the file's path.
    pub command: Vec<String>,
    /// Variables of its programs.
    pub env: BTreeMap<String, String>,
}

impl Image {
    /// The language of this image that answers to `name`, its own or another that it runs.
    #[must_use]
    pub fn language(&self, name: &str) -> Option<&Language> {
        self.languages
            .iter()
            .find(|language| language.answers_to(name))
    }
}

impl Language {
    /// Whether `name` is this language's name or one of its aliases, in upper or lower case.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        self.names().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// The name and the aliases.
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name)
            .chain(&self.aliases)
            .map(String::as_str)
    }
}

/// Every image there is, each found by the name or an alias of its own language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Languages {
    images: Vec<Arc<Image>>,
    /// How many of `images`, from the front, are built in.
    built_in: usize,
}

impl Languages {
    /// The built-in images, less those that the operator replaces, and the operator's.
    pub(super) fn new(raw: Vec<RawLanguage>) -> Result<Self, Problem> {
        let own = raw
            .into_iter()
            .map(checked)
            .collect::<Result<Vec<_>, _>>()?;
        let mut images: Vec<Arc<Image>> = built_in()
            .into_iter()
            .filter(|image| !own.iter().any(|other| other.name == image.name))
            .map(Arc::new)
            .collect();
        let built_in = images.len();
        for image in own {
            for name in image.languages.iter().flat_map(Language::names) {
                if let Some(other) = images
                    .iter()
                    .find(|other| other.languages[0].answers_to(name))
                {
                    return Err(Problem::LanguageClash {
                        language: image.name.clone(),
                        found: name.to_owned(),
                        other: other.name.clone(),
                    });
                }
            }
            images.push(Arc::new(image));
        }
        Ok(Self { images, built_in })
    }

    /// The image whose own language answers to `name`, in upper or lower case.
    #[must_use]
    pub fn image(&self, name: &str) -> Option<&Arc<Image>> {
        self.images.iter().find(|image| {
            image
                .languages
                .first()
                .is_some_and(|own| own.answers_to(name))
        })
    }

    /// All images, the built-in ones first.
    #[must_use]
    pub fn images(&self) -> &[Arc<Image>] {
        &self.images
    }

    /// The built-in images that are in use.
    #[must_use]
    pub fn built_in(&self) -> &[Arc<Image>] {
        &self.images[..self.built_in]
    }

    /// The operator's images.
    #[must_use]
    pub fn configured(&self) -> &[Arc<Image>] {
        &self.images[self.built_in..]
    }

    /// The languages with their aliases, for messages: `python (python3, py), bash`.
    #[must_use]
    pub fn list(&self) -> String {
        list(
            self.images
                .iter()
                .filter_map(|image| image.languages.first()),
        )
    }
}

/// Languages with their aliases, for messages.
#[must_use]
pub fn list<'a>(languages: impl Iterator<Item = &'a Language>) -> String {
    languages
        .map(|language| {
            if language.aliases.is_empty() {
                language.name.clone()
            } else {
                format!("{} ({})", language.name, language.aliases.join(", "))
            }
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn checked(raw: RawLanguage) -> Result<Image, Problem> {
    let language = raw.name;
    let names = std::iter::once(("name", &language))
        .chain(raw.aliases.iter().map(|alias| ("aliases", alias)));
    for (key, found) in names {
        if !is_name(found) {
            return Err(Problem::LanguageName {
                language: language.clone(),
                key,
                found: found.clone(),
            });
        }
    }
    for (at, alias) in raw.aliases.iter().enumerate() {
        if *alias == language || raw.aliases[..at].contains(alias) {
            return Err(Problem::LanguageClash {
                language: language.clone(),
                found: alias.clone(),
                other: language,
            });
        }
    }
    if !is_reference(&raw.image) {
        return Err(Problem::LanguageImage {
            language,
            found: raw.image,
        });
    }
    if !is_program(&raw.program) {
        return Err(Problem::LanguageProgram {
            language,
            found: raw.program,
        });
    }
    if !is_command(&raw.command) {
        return Err(Problem::LanguageCommand {
            language,
            found: raw.command,
        });
    }
    if let Some((name, _)) = raw.env.iter().find(|(name, value)| {
        !is_variable(name) || is_loader_variable(name) || value.contains('\0')
    }) {
        return Err(Problem::LanguageVariable {
            language,
            name: name.clone(),
        });
    }
    let shm_mib = raw.shm_mib.unwrap_or(DEFAULT_SHM_MIB);
    if !(1..=MAX_SHM_MIB).contains(&shm_mib) {
        return Err(Problem::LanguageShm {
            language,
            found: shm_mib,
            most: MAX_SHM_MIB,
        });
    }
    Ok(Image {
        name: language.clone(),
        tag: raw.image,
        shm_mib,
        env: BTreeMap::new(),
        languages: vec![Language {
            name: language,
            aliases: raw.aliases,
            program: raw.program,
            command: raw.command,
            env: raw.env,
        }],
    })
}

/// Names are shown in messages and typed by models: plain lower-case ones only.
fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME_BYTES
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+#._-".contains(&b))
}

fn is_reference(text: &str) -> bool {
    text.len() <= MAX_IMAGE_BYTES
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"./:@_-".contains(&b))
        && !text.split('/').any(|part| part.is_empty() || part == "..")
}

/// Words that the kernel takes, with the program's place in them exactly once.
fn is_command(words: &[String]) -> bool {
    let marks: usize = words
        .iter()
        .map(|word| word.matches(PROGRAM_MARK).count())
        .sum();
    words.len() <= MAX_COMMAND_WORDS
        && marks == 1
        && words
            .iter()
            .all(|word| !word.is_empty() && !word.contains('\0'))
}

/// Whether the dynamic loader obeys the variable.
pub(crate) fn is_loader_variable(text: &str) -> bool {
    text.starts_with("LD_") || text == "GLIBC_TUNABLES"
}

/// The program is a hidden file, so that it is never collected as an artifact.
fn is_program(text: &str) -> bool {
    (2..=MAX_PROGRAM_BYTES).contains(&text.len())
        && text.starts_with('.')
        && text != ".."
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// The names of variables that every shell and system can set.
#[must_use]
pub fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Stand-in until the image catalogue is here.
fn built_in() -> Vec<Image> {
    let language = |name: &str, aliases: &[&str], program: &str, command: &str| Language {
        name: name.to_owned(),
        aliases: aliases.iter().map(ToString::to_string).collect(),
        program: program.to_owned(),
        command: vec![command.to_owned(), PROGRAM_MARK.to_owned()],
        env: BTreeMap::new(),
    };
    let bash = || language("bash", &["sh", "shell"], ".main.sh", "bash");
    let image = |name: &str, languages| Image {
        name: name.to_owned(),
        tag: format!("belljar/{name}:latest"),
        shm_mib: DEFAULT_SHM_MIB,
        env: BTreeMap::new(),
        languages,
    };
    vec![
        image(
            "python",
            vec![
                language("python", &["python3", "py"], ".main.py", "python3"),
                bash(),
            ],
        ),
        image(
            "javascript",
            vec![
                language("javascript", &["node", "js"], ".main.js", "node"),
                bash(),
            ],
        ),
        image("bash", vec![bash()]),
    ]
}
