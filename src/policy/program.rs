//! The rules for what a program is given: code, standard input, arguments and variables.

use std::collections::BTreeMap;

use super::{Denial, denial::Quoted};
use crate::{
    images::{is_loader_variable, is_variable},
    types::MIB,
};

/// The most code, in bytes: it travels in one message and is kept beside the record.
#[expect(clippy::cast_possible_truncation, reason = "one mebibyte")]
pub const MAX_CODE_BYTES: usize = MIB as usize;
/// The most standard input, in bytes: it is held in memory until the program has read it.
#[expect(clippy::cast_possible_truncation, reason = "eight mebibytes")]
pub const MAX_STDIN_BYTES: usize = 8 * MIB as usize;
/// The most arguments: a list of a hundred thousand must not reach the guest.
pub(super) const MAX_ARGS: usize = 1024;
/// The most variables of a caller's.
pub(super) const MAX_ENV: usize = 512;
/// The longest argument or variable, in bytes: the kernel's `MAX_ARG_STRLEN` less its NUL, past which the program
/// would not start.
pub(super) const MAX_STRING_BYTES: usize = 128 * 1024 - 1;
/// The most bytes of all arguments, and of all variables: together far below what the kernel and one message to
/// the guest take.
pub const MAX_STRINGS_BYTES: usize = 256 * 1024;

/// Code: something, and not too much.
pub(super) fn check_code(code: &str) -> Result<(), Denial> {
    match code.len() {
        0 => Err(Denial::CodeEmpty),
        1..=MAX_CODE_BYTES => Ok(()),
        bytes => Err(Denial::CodeTooLarge { bytes }),
    }
}

/// Standard input: not too much.
pub(super) fn check_stdin(stdin: Option<&str>) -> Result<(), Denial> {
    match stdin.map_or(0, str::len) {
        0..=MAX_STDIN_BYTES => Ok(()),
        bytes => Err(Denial::StdinTooLarge { bytes }),
    }
}

/// Arguments: what the kernel takes.
pub(super) fn check_args(args: &[String]) -> Result<(), Denial> {
    if args.len() > MAX_ARGS {
        return Err(Denial::TooManyArgs { count: args.len() });
    }
    for (at, arg) in args.iter().enumerate() {
        if arg.contains('\0') {
            return Err(Denial::ArgNul { at });
        }
        if arg.len() > MAX_STRING_BYTES {
            return Err(Denial::ArgTooLong { at });
        }
    }
    match args.iter().map(|arg| arg.len() + 1).sum() {
        0..=MAX_STRINGS_BYTES => Ok(()),
        bytes => Err(Denial::ArgsTooLarge { bytes }),
    }
}

/// Variables: plain names, none of the loader's. `HOME`, `PATH` and those of interpreters are the caller's to
/// choose: they decide what the program believes, not what it may do.
pub(super) fn check_env(env: &BTreeMap<String, String>) -> Result<(), Denial> {
    if env.len() > MAX_ENV {
        return Err(Denial::TooManyVariables { count: env.len() });
    }
    for (name, value) in env {
        let quoted = || Quoted::new(name);
        if !is_variable(name) {
            return Err(Denial::VariableName { name: quoted() });
        }
        if is_loader_variable(name) {
            return Err(Denial::VariableOfLoader { name: quoted() });
        }
        if value.contains('\0') {
            return Err(Denial::VariableNul { name: quoted() });
        }
        if name.len() + value.len() + 1 > MAX_STRING_BYTES {
            return Err(Denial::VariableTooLong { name: quoted() });
        }
    }
    match env
        .iter()
        .map(|(name, value)| name.len() + value.len() + 2)
        .sum()
    {
        0..=MAX_STRINGS_BYTES => Ok(()),
        bytes => Err(Denial::VariablesTooLarge { bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(result: Result<(), Denial>) -> &'static str {
        result.err().map_or("allowed", |denial| denial.reason())
    }

    #[test]
    fn code_is_neither_empty_nor_too_large() {
        assert_eq!(reason(check_code("")), "code_empty");
        assert_eq!(reason(check_code(" ")), "allowed");
        assert_eq!(reason(check_code(&"x".repeat(MAX_CODE_BYTES))), "allowed");
        assert_eq!(
            reason(check_code(&"x".repeat(MAX_CODE_BYTES + 1))),
            "code_too_large"
        );
    }

    #[test]
    fn standard_input_is_bounded() {
        let most = "x".repeat(MAX_STDIN_BYTES);
        assert_eq!(reason(check_stdin(None)), "allowed");
        assert_eq!(reason(check_stdin(Some(&most))), "allowed");
        assert_eq!(reason(check_stdin(Some(&(most + "x")))), "stdin_too_large");
    }

    #[test]
    fn arguments_are_what_the_kernel_takes() {
        let args = |count: usize, arg: &str| vec![arg.to_owned(); count];
        for (args, expected) in [
            (args(0, ""), "allowed"),
            (args(2, "a b\n-x"), "allowed"),
            (args(MAX_ARGS, ""), "allowed"),
            (args(MAX_ARGS + 1, ""), "too_many_args"),
            (args(100_000, "x"), "too_many_args"),
            (args(1, "a\0b"), "arg_nul"),
            (args(1, &"x".repeat(MAX_STRING_BYTES)), "allowed"),
            (args(1, &"x".repeat(MAX_STRING_BYTES + 1)), "arg_too_long"),
            (args(3, &"x".repeat(100_000)), "args_too_large"),
        ] {
            assert_eq!(reason(check_args(&args)), expected);
        }
    }

    #[test]
    fn variables_are_plain_and_none_of_the_loaders() {
        for (name, value, expected) in [
            ("GREETING", "hi", "allowed"),
            ("_x1", "", "allowed"),
            ("PYTHONHASHSEED", "0", "allowed"),
            ("NODE_OPTIONS", "--max-old-space-size=64", "allowed"),
            ("PATH", "/workspace/bin", "allowed"),
            ("HOME", "/tmp", "allowed"),
            ("LDFLAGS", "-s", "allowed"),
            ("", "x", "variable_name"),
            ("A=B", "x", "variable_name"),
            ("A\0", "x", "variable_name"),
            ("1A", "x", "variable_name"),
            ("A-B", "x", "variable_name"),
            ("É", "x", "variable_name"),
            ("LD_PRELOAD", "/workspace/x.so", "variable_of_loader"),
            ("LD_ANYTHING", "", "variable_of_loader"),
            ("GLIBC_TUNABLES", "x", "variable_of_loader"),
            ("A", "a\0b", "variable_nul"),
        ] {
            let env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            assert_eq!(reason(check_env(&env)), expected, "{name:?}");
        }
    }

    #[test]
    fn variables_are_bounded() {
        let env = |count: usize, bytes: usize| -> BTreeMap<String, String> {
            (0..count)
                .map(|at| (format!("V{at}"), "x".repeat(bytes)))
                .collect()
        };
        assert_eq!(reason(check_env(&env(MAX_ENV, 1))), "allowed");
        assert_eq!(
            reason(check_env(&env(MAX_ENV + 1, 1))),
            "too_many_variables"
        );
        assert_eq!(
            reason(check_env(&env(1, MAX_STRING_BYTES))),
            "variable_too_long"
        );
        assert_eq!(reason(check_env(&env(3, 100_000))), "variables_too_large");
    }
}
