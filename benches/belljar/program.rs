//! The programs that are run, and how each language starts one.
//!
//! The commands are those of `images/*/image.toml`, so that every candidate starts the same interpreter.

/// A language.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Language {
    /// As `run_code` names it.
    pub(crate) name: &'static str,
    /// Its interpreter.
    pub(crate) command: &'static str,
    /// The interpreter's option for a program in an argument.
    pub(crate) inline: &'static str,
    /// Where belljar writes the program.
    pub(crate) file: &'static str,
}

/// Python.
pub(crate) const PYTHON: Language = Language {
    name: "python",
    command: "python3",
    inline: "-c",
    file: "/workspace/.main.py",
};

/// JavaScript.
pub(crate) const JAVASCRIPT: Language = Language {
    name: "javascript",
    command: "node",
    inline: "-e",
    file: "/workspace/.main.js",
};

/// bash.
pub(crate) const BASH: Language = Language {
    name: "bash",
    command: "bash",
    inline: "-c",
    file: "/workspace/.main.sh",
};

/// A program and what it prints.
#[derive(Debug)]
pub(crate) struct Program {
    /// What it is written in.
    pub(crate) language: &'static Language,
    /// Its text.
    pub(crate) code: &'static str,
    /// What it prints; anything else is a failure.
    pub(crate) prints: &'static str,
}

/// The least that Python can do.
pub(crate) const PRINT: Program = Program {
    language: &PYTHON,
    code: "print(1)",
    prints: "1\n",
};

/// What most analyses begin with.
pub(crate) const PANDAS: Program = Program {
    language: &PYTHON,
    code: "import pandas, matplotlib.pyplot\nprint(1)",
    prints: "1\n",
};

/// The least that JavaScript can do.
pub(crate) const CONSOLE: Program = Program {
    language: &JAVASCRIPT,
    code: "console.log(1)",
    prints: "1\n",
};

/// The least that bash can do.
pub(crate) const ECHO: Program = Program {
    language: &BASH,
    code: "echo 1",
    prints: "1\n",
};

impl Program {
    /// The command with the program in an argument.
    pub(crate) fn inline(&self) -> [&'static str; 3] {
        [self.language.command, self.language.inline, self.code]
    }

    /// The command with the program in a file, as belljar starts it.
    pub(crate) fn in_file(&self) -> [&'static str; 2] {
        [self.language.command, self.language.file]
    }
}
