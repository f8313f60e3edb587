//! A guest in hostile hands, as PID 1 in real containers of the real server: whatever it says, the server stays within
//! its memory, answers in time, removes the container, and serves the next call. Needs a Docker daemon behind a Unix
//! socket, with the image `belljar/bash:latest`.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod liar;
mod proxy;
mod world;

use std::fmt::Write as _;

use belljar_test_liar::lies::{At, Call, Expect, LIES, Lie};
use serde_json::{Value, json};

use crate::world::{Level, World, until};

/// What one lying guest may make the server hold at its worst, in MiB: twice the windows of its connection (what is held
/// back grows by doubling), and as much again as any run takes.
const BOUND_MIB: f64 = 64.0;

fn about_a_program(lie: &Lie) -> bool {
    lie.at == At::Run && matches!(lie.call, Call::Run | Call::Session)
}

/// The head of the table that each test prints.
const HEAD: &str = "| lie | outcome | peak MiB |\n|---|---|---|\n";

/// What came of a call.
struct Answer {
    /// The status of a run, or of the session afterwards; `error` where nothing was started.
    status: String,
    result: Value,
}

#[test]
fn a_guest_that_lies_before_it_greets() {
    tell(|lie| matches!(lie.at, At::Start | At::Hello));
}

#[test]
fn a_guest_that_lies_about_a_program() {
    tell(about_a_program);
}

#[test]
fn a_guest_that_lies_to_pings() {
    tell(|lie| lie.call == Call::Long);
}

#[test]
fn a_guest_that_lies_about_files() {
    tell(about_files);
}

#[test]
fn a_guest_that_lies_on_the_way_out() {
    tell(|lie| lie.call == Call::Egress);
}

#[test]
fn a_guest_that_lies_before_a_program() {
    tell_together(before_a_program);
}

#[test]
fn a_guest_that_lies_at_the_kill_or_says_nothing() {
    tell_together(takes_its_time);
}

/// Whether a lie ends only with a deadline of the server's: such are told together.
fn takes_its_time(lie: &Lie) -> bool {
    lie.expect == Expect::LostLate
        || matches!(lie.call, Call::Flood | Call::FloodInSession | Call::Cancel)
}

fn before_a_program(lie: &Lie) -> bool {
    lie.call == Call::Install && !takes_its_time(lie)
}

fn about_files(lie: &Lie) -> bool {
    matches!(lie.call, Call::List | Call::Fetch | Call::Upload) && !takes_its_time(lie)
}

#[test]
fn every_lie_is_told_by_exactly_one_of_these_tests() {
    let told = |lie: &Lie| {
        [
            matches!(lie.at, At::Start | At::Hello),
            about_a_program(lie),
            lie.call == Call::Long,
            lie.call == Call::Pool,
            about_files(lie),
            takes_its_time(lie),
            before_a_program(lie),
            lie.call == Call::Egress,
        ]
    };
    for lie in LIES {
        let count = told(lie).into_iter().filter(|told| *told).count();
        assert_eq!(count, 1, "{}", lie.name);
    }
}

#[test]
fn a_guest_that_lies_while_it_waits() {
    let mut world = World::new("[pool]\nmax = 2\nmin = 2\n");
    let mut table = String::from(HEAD);
    for (number, lie) in LIES.iter().enumerate() {
        if lie.call != Call::Pool {
            continue;
        }
        let before = world.mark();
        world.liar(number);
        let run = json!({"language": "bash", "code": "echo honest", "timeout_seconds": 5});
        // Past those that waited before, into those that lie.
        let answers: Vec<_> = (0..5).map(|_| ran(&mut world, &run)).collect();
        let said: Vec<_> = answers.iter().map(|answer| &*answer.status).collect();
        let peak = world.peak_since(before);
        let _ = writeln!(table, "| {} | {} | {peak:.1} |", lie.name, said.join(", "));
        assert!(peak <= BOUND_MIB, "{table}");
        for answer in &answers {
            let known = ["exited", "sandbox_lost"].contains(&&*answer.status);
            assert!(known, "{}: {}", lie.name, answer.result);
        }
        // A liar runs nothing, and prints what it always prints.
        let honest =
            |answer: &&Answer| answer.result["structuredContent"]["stdout"]["text"] == "honest\n";
        let liars = answers.len() - answers.iter().filter(honest).count();
        assert!(liars > 0, "{}: nobody met a liar", lie.name);
        world.honest_guest();
        // Those that still lie are used up or removed, and then it is as it was.
        until("calls are served again", || {
            let honest = json!({"language": "bash", "code": "echo honest"});
            let result = world.call("run_code", &honest);
            result["structuredContent"]["stdout"]["text"] == "honest\n"
        });
    }
    eprintln!("{table}");
}

/// Has each of these lies told, and looks at what became of the server.
fn tell(of: impl Fn(&Lie) -> bool) {
    let mut world = World::new("[pool]\nmax = 0\n");
    let level = world.level();
    let mut table = String::from(HEAD);
    let mut wrong = Vec::new();
    for (number, lie) in LIES.iter().enumerate().filter(|(_, lie)| of(lie)) {
        let before = world.mark();
        world.liar(number);
        let begun = begin(&mut world, lie);
        let answer = end(&mut world, lie, begun);
        let peak = world.peak_since(before);
        world.honest_guest();
        let _ = writeln!(table, "| {} | {} | {peak:.1} |", lie.name, answer.status);
        if !lie.is_met_by(&answer) {
            wrong.push(format!("{}: {}", lie.name, answer.result));
        }
        if peak > BOUND_MIB {
            wrong.push(format!("{}: {peak:.1} MiB", lie.name));
        }
        world.until_empty();
        world.works();
    }
    eprintln!("{table}");
    leave(world, level, &wrong);
}

/// Has all of these lies told at a time, each in a sandbox of its own.
fn tell_together(of: impl Fn(&Lie) -> bool) {
    let mut world =
        World::new("[pool]\nmax = 0\n[concurrency]\nmax_sandboxes = 60\n[sessions]\nmax = 40\n");
    let level = world.level();
    let before = world.mark();
    let mut calls = Vec::new();
    for (number, lie) in LIES.iter().enumerate().filter(|(_, lie)| of(lie)) {
        world.liar(number);
        let others = world.begun();
        let begun = begin(&mut world, lie);
        // The next one must not get this lie: what is on record has its sandbox.
        if begun.session.is_none() && begun.id.is_some() {
            until("its sandbox is there", || world.begun() > others);
        }
        calls.push((lie, begun));
    }
    world.honest_guest();
    // Among all of them others are served.
    world.works();
    let mut table = String::from(HEAD);
    let mut wrong = Vec::new();
    let taken_back = calls.iter().filter(|(lie, _)| lie.call == Call::Cancel);
    let taken_back = taken_back.count();
    for (lie, begun) in calls {
        let answer = end(&mut world, lie, begun);
        let _ = writeln!(table, "| {} | {} | |", lie.name, answer.status);
        if !lie.is_met_by(&answer) {
            wrong.push(format!("{}: {}", lie.name, answer.result));
        }
    }
    until("those that were taken back are on record as such", || {
        let runs = world.recorded("run_code");
        let cancelled = |line: &&Value| line["outcome"]["status"] == "cancelled";
        runs.iter().filter(cancelled).count() == taken_back
    });
    let peak = world.peak_since(before);
    eprintln!("{table}\nall of them together: {peak:.1} MiB");
    if peak > BOUND_MIB {
        wrong.push(format!("{peak:.1} MiB"));
    }
    leave(world, level, &wrong);
}

/// The server is as it was, has written nothing raw, and leaves nothing.
fn leave(mut world: World, level: Level, wrong: &[String]) {
    world.until_empty();
    world.works();
    world.until_empty();
    until("its files and threads are as many as before", || {
        let now = world.level();
        now.files <= level.files + 2 && now.threads <= level.threads + 2
    });
    for raw in ["\u{1b}", "\u{202e}"] {
        let logs = String::from_utf8(world.logs()).expect("logs are text");
        assert!(!logs.contains(raw), "{logs}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    world.end();
}

/// A call under way.
struct Begun {
    /// None where no answer comes.
    id: Option<u64>,
    session: Option<Value>,
}

/// Begins the call of a lie.
fn begin(world: &mut World, lie: &Lie) -> Begun {
    let mut run = json!({"language": "bash", "code": "echo well", "timeout_seconds": 2});
    let session = match lie.call {
        Call::Session | Call::FloodInSession | Call::List | Call::Fetch | Call::Upload => {
            let opened = world.call("open_session", &json!({"language": "bash"}));
            Some(opened["structuredContent"]["session"].clone())
        }
        _ => None,
    };
    if let Some(session) = &session {
        run["session"] = session.clone();
    }
    let id = match lie.call {
        Call::Egress => {
            run["network"] = "lab".into();
            run["env"] = json!({"SERVER": world.server});
            world.begin("run_code", &run)
        }
        Call::Long => {
            run["timeout_seconds"] = 60.into();
            world.begin("run_code", &run)
        }
        Call::Install => {
            run["language"] = "python".into();
            run["packages"] = json!(["iniconfig"]);
            world.begin("run_code", &run)
        }
        Call::Flood | Call::FloodInSession => {
            run["limits"] = json!({"output_kib": 1});
            world.begin("run_code", &run)
        }
        Call::Cancel => {
            run["timeout_seconds"] = 60.into();
            world.cancelled(&run);
            return Begun { id: None, session };
        }
        Call::Run | Call::Session | Call::Pool => world.begin("run_code", &run),
        Call::List => world.begin("list_files", &json!({"session": session})),
        Call::Fetch => world.begin(
            "fetch_artifact",
            &json!({"session": session, "path": "well"}),
        ),
        Call::Upload => world.begin(
            "upload_file",
            &json!({"session": session, "path": "well", "text": "four"}),
        ),
    };
    Begun {
        id: Some(id),
        session,
    }
}

/// What comes of it.
fn end(world: &mut World, lie: &Lie, begun: Begun) -> Answer {
    let Some(id) = begun.id else {
        return Answer {
            status: "cancelled".to_owned(),
            result: Value::Null,
        };
    };
    let result = world.answer(id);
    let failed = result["isError"] == true;
    let ran = result["structuredContent"]["status"].as_str();
    let status = ran.unwrap_or("error").to_owned();
    let Some(session) = begun.session else {
        return Answer { status, result };
    };
    // Whether the session is still there, in its own words.
    let after = world.call("close_session", &json!({"session": session}));
    let gone = after["isError"] == true;
    let status = match lie.call {
        Call::FloodInSession if gone => format!("{status}, and the session is lost"),
        Call::FloodInSession => format!("{status}, and the session lives"),
        Call::List | Call::Fetch | Call::Upload => match (failed, gone) {
            (true, true) => "sandbox_lost".to_owned(),
            (true, false) => "refused".to_owned(),
            (false, _) => "listed".to_owned(),
        },
        _ => status,
    };
    Answer {
        status,
        result: json!([result, after]),
    }
}

fn ran(world: &mut World, run: &Value) -> Answer {
    let result = world.call("run_code", run);
    let status = result["structuredContent"]["status"].as_str();
    Answer {
        status: status.unwrap_or("error").to_owned(),
        result,
    }
}

/// What was expected of a lie.
trait Met {
    fn is_met_by(&self, answer: &Answer) -> bool;
}

impl Met for Lie {
    fn is_met_by(&self, answer: &Answer) -> bool {
        match self.expect {
            Expect::Lost | Expect::LostLate => answer.status == "sandbox_lost",
            Expect::LostOrLate => {
                ["sandbox_lost", "timed_out", "output_limit"].contains(&answer.status.as_str())
            }
            Expect::Status(status) => answer.status == status,
            Expect::NoStart => answer.status == "error",
            Expect::Replaced => {
                let said = &answer.result["structuredContent"]["stdout"]["text"];
                answer.status == "exited" && said == "well\n"
            }
        }
    }
}
