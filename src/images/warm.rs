//! How an interpreter waits for its program, and which programs it is not for.
//!
//! An interpreter that waits has booted with the image's own variables. Whoever brings variables that would have
//! changed how it boots gets a new one: here stands which those are, so that nobody has to ask for it.

use std::collections::BTreeMap;

use super::language::is_variable;

/// The most memory of an interpreter that waits, in MiB: it comes on top of what a caller asked for.
pub(super) const MAX_WARM_MIB: u32 = 512;
/// The most patterns of a list.
pub(super) const MAX_PATTERNS: usize = 128;

/// The most kinds of waiting interpreters of one language: each is waited for on its own.
pub(super) const MAX_KINDS: usize = 4;
/// The most words of a kind, each looked for in every program.
pub(super) const MAX_WORDS: usize = 64;
/// The longest of these words, in bytes.
pub(super) const MAX_WORD_BYTES: usize = 64;

/// An interpreter of a language that can wait for its program in a hook of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warm {
    /// What it may have loaded. The first is for every program, each other one for programs with its words.
    pub kinds: Vec<Kind>,
    /// A caller's variable among these needs a new interpreter.
    pub cold_env: Vec<Pattern>,
    /// Which arguments the waiting interpreter can be given.
    pub args: WarmArgs,
}

/// One kind of waiting interpreter. Any of them can run any program: they differ in what is loaded already, and in how
/// long it takes to end what was loaded for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Variables that tell the hook to wait, and for what, beside those of every program. The hook takes them away.
    pub env: BTreeMap<String, String>,
    /// A program in which one of them stands gets this kind.
    pub words: Vec<String>,
    /// What it takes while it waits, in MiB, so that programs keep what they asked for.
    pub memory_mib: u32,
}

/// Whether a waiting interpreter can still be given a program's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmArgs {
    /// Any.
    Any,
    /// None: a program with arguments needs a new interpreter.
    None,
}

impl Warm {
    /// The number of the kind that suits this code best. A guess from its words is enough: nothing but time depends
    /// on it.
    #[must_use]
    pub fn kind_for(&self, code: &str) -> usize {
        let suits = |kind: &Kind| kind.words.iter().any(|word| code.contains(word.as_str()));
        self.kinds.iter().position(suits).unwrap_or(0)
    }

    /// Whether the waiting interpreter can run a program with these arguments and variables of a caller's as a new
    /// one would.
    #[must_use]
    pub fn suits(&self, args: &[String], variables: &[&str]) -> bool {
        let args_fit = match self.args {
            WarmArgs::Any => true,
            WarmArgs::None => args.is_empty(),
        };
        args_fit
            && !variables
                .iter()
                .any(|name| self.cold_env.iter().any(|pattern| pattern.matches(name)))
    }
}

/// The name of a variable, or the beginning of names: `TZ`, `PYTHON*`, `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// This variable.
    Name(String),
    /// Every variable whose name begins so.
    Prefix(String),
}

impl Pattern {
    /// Reads a pattern. A `*` stands only at its end.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('*') {
            Some("") => Some(Self::Prefix(String::new())),
            Some(prefix) => is_variable(prefix).then(|| Self::Prefix(prefix.to_owned())),
            None => is_variable(text).then(|| Self::Name(text.to_owned())),
        }
    }

    /// Whether the variable of that name is meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warm(args: WarmArgs, patterns: &[&str]) -> Warm {
        Warm {
            kinds: vec![kind(&[])],
            cold_env: patterns
                .iter()
                .map(|text| Pattern::parse(text).unwrap())
                .collect(),
            args,
        }
    }

    fn kind(words: &[&str]) -> Kind {
        Kind {
            env: BTreeMap::new(),
            words: words.iter().map(|&word| word.to_owned()).collect(),
            memory_mib: 1,
        }
    }

    #[test]
    fn a_program_gets_the_kind_of_its_words_and_else_the_first() {
        let python = Warm {
            kinds: vec![kind(&[]), kind(&["numpy", "pandas"]), kind(&["sympy"])],
            ..warm(WarmArgs::Any, &[])
        };
        for (code, expected) in [
            ("print(1)", 0),
            ("", 0),
            ("import numpy as np", 1),
            ("from sympy import x", 2),
            ("import sympy, pandas", 1),
        ] {
            assert_eq!(python.kind_for(code), expected, "{code}");
        }
    }

    fn suits(warm: &Warm, args: &[&str], names: &[&str]) -> bool {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        warm.suits(&args, names)
    }

    #[test]
    fn variables_of_the_list_need_a_new_interpreter() {
        let python = warm(WarmArgs::Any, &["PYTHON*", "TZ"]);
        for names in [&[][..], &["GREETING"], &["TZDIR"], &["APYTHON", "python"]] {
            assert!(suits(&python, &["x"], names), "{names:?}");
        }
        for names in [&["PYTHONHASHSEED"][..], &["A", "TZ"], &["PYTHON"]] {
            assert!(!suits(&python, &[], names), "{names:?}");
        }
        let bash = warm(WarmArgs::None, &["*"]);
        assert!(suits(&bash, &[], &[]));
        assert!(!suits(&bash, &[], &["A"]) && !suits(&bash, &["x"], &[]));
    }

    #[test]
    fn a_star_stands_at_the_end_of_a_name() {
        assert_eq!(Pattern::parse("*"), Some(Pattern::Prefix(String::new())));
        assert_eq!(
            Pattern::parse("LC_*"),
            Some(Pattern::Prefix("LC_".to_owned()))
        );
        for bad in ["", "**", "*A", "A*B", "A B", "1*", "A=*", "A-B"] {
            assert_eq!(Pattern::parse(bad), None, "{bad:?}");
        }
    }
}
