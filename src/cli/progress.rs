//! Shows a person how long work goes on: one moving line on a terminal, plain lines elsewhere.
//!
//! Always on standard error: standard output carries results, and under `serve` the protocol.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::images::{Line, Progress};

/// How often the moving line moves.
const TICK: Duration = Duration::from_millis(120);
/// How often, without a terminal, a line shows that the work goes on: a build prints thousands.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Progress on standard error.
#[derive(Debug)]
pub(super) struct TerminalProgress {
    work: Mutex<Work>,
    target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Terminal,
    Lines,
}

/// The piece of work that goes on.
#[derive(Debug)]
struct Work {
    what: String,
    since: Instant,
    /// When a line was shown last.
    shown: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl TerminalProgress {
    /// Shows what follows on standard error.
    pub(super) fn new() -> Self {
        let target = if std::io::stderr().is_terminal() {
            Target::Terminal
        } else {
            Target::Lines
        };
        Self {
            work: Mutex::new(Work {
                what: String::new(),
                since: Instant::now(),
                shown: None,
                bar: None,
            }),
            target,
        }
    }

    fn say(text: &str) {
        // Nobody to tell where standard error is closed.
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    fn bar() -> ProgressBar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        bar
    }
}

impl Default for TerminalProgress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress for TerminalProgress {
    fn begin(&self, what: &str) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = work.bar.take() {
            bar.finish_and_clear();
        }
        what.clone_into(&mut work.what);
        work.since = Instant::now();
        work.shown = None;
        if self.target == Target::Terminal {
            let bar = Self::bar();
            bar.set_prefix(what.to_owned());
            work.bar = Some(bar);
        }
    }

    fn line(&self, line: &Line) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = &work.bar {
            bar.set_message(line.as_str().to_owned());
        } else if work.shown.is_none_or(|at| at.elapsed() >= SIGN_OF_LIFE) {
            work.shown = Some(Instant::now());
            Self::say(&format!("{}: {line}", work.what));
        }
    }

    fn end(&self, how: &str) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = work.bar.take() {
            bar.finish_and_clear();
        }
        let seconds = work.since.elapsed().as_secs();
        if seconds == 0 {
            Self::say(&format!("{}: {how}", work.what));
        } else {
            Self::say(&format!("{}: {how} in {seconds} s", work.what));
        }
    }
}

impl Drop for TerminalProgress {
    /// Leaves no moving line behind where the work failed.
    fn drop(&mut self) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = work.bar.take() {
            bar.finish_and_clear();
        }
    }
}
