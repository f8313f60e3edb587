//! The matrix: which step breaks how, under which call, and what must come of it.
//!
//! Data alone, in the words of `cell`. `matrix` plays it.

use crate::{
    cell::{Act, Break, Cell, Expect, On, PARTIAL, Tier},
    proxy::Fault,
    pump::Breach,
    step::{Phase, Step},
};

/// Every fault that a call can have.
const FAULTS: [Fault; 11] = [
    Fault::Delay,
    Fault::Refuse,
    Fault::Status(500),
    Fault::Status(409),
    Fault::Status(404),
    Fault::ActsThen(500),
    Fault::Lost,
    Fault::Cut,
    Fault::Garbage,
    Fault::Stall,
    Fault::Mute,
];

const BREACHES: [Breach; 7] = [
    Breach::Pause,
    Breach::Cut,
    Breach::EndOut,
    Breach::EndIn,
    Breach::Garbage,
    Breach::Corrupt,
    Breach::Stall,
];

/// The whole matrix.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    launch(&mut cells);
    first_launch(&mut cells);
    seeding(&mut cells);
    ends(&mut cells);
    pool(&mut cells);
    streams(&mut cells);
    sessions(&mut cells);
    ways_out(&mut cells);
    files(&mut cells);
    cells
}

/// What is said of a step of a launch that fails so.
fn words(step: Step, fault: Fault) -> &'static [&'static str] {
    match (step, fault) {
        (_, Fault::Refuse | Fault::Lost) => &["no Docker daemon answers", "belljar doctor"],
        (_, Fault::Stall | Fault::Mute) => &["did not answer", "docker info"],
        (_, Fault::Cut | Fault::Garbage) => &["Docker daemon"],
        (Step::Image, Fault::Status(404)) => &["not on the Docker daemon", "belljar images build"],
        (Step::Start, _) | (Step::Inspect, Fault::Status(404)) => {
            &["did not start", "belljar doctor"]
        }
        (_, Fault::Status(404)) => &["knows no such object", "on cue"],
        (_, Fault::Status(409)) => &["conflict", "on cue"],
        (_, Fault::Status(_) | Fault::ActsThen(_)) => &["the Docker daemon failed", "on cue"],
        (_, Fault::Delay) => &[],
    }
}

fn refused(step: Step, fault: Fault) -> Expect {
    match (step, fault) {
        // Where a start hangs, another one is begun for the call that waits, before the deadline of the first.
        (_, Fault::Delay) | (Step::Create | Step::Start, Fault::Stall | Fault::Mute) => {
            Expect::Works
        }
        _ => Expect::Refused(words(step, fault)),
    }
}

/// In `make test`: each fault of another kind once a step, unless it takes a minute.
fn tier(step: Step, fault: Fault) -> Tier {
    match fault {
        Fault::Refuse | Fault::Status(500) | Fault::ActsThen(_) | Fault::Lost => Tier::Always,
        Fault::Mute if step.deadline() <= 20 => Tier::Always,
        Fault::Status(404) if matches!(step, Step::Image | Step::Inspect) => Tier::Always,
        Fault::Delay
        | Fault::Status(_)
        | Fault::Cut
        | Fault::Garbage
        | Fault::Stall
        | Fault::Mute => Tier::Full,
    }
}

fn call(step: Step, fault: Fault) -> Break {
    Break::Call {
        step,
        fault,
        skip: 0,
        times: 1,
    }
}

/// Each call of a launch, with each fault.
fn launch(cells: &mut Vec<Cell>) {
    for step in [
        Step::Image,
        Step::Create,
        Step::Attach,
        Step::Inspect,
        Step::List,
        Step::Start,
    ] {
        for fault in FAULTS {
            cells.push(Cell {
                act: Act::Run,
                on: On::Warm,
                breaks: call(step, fault),
                expect: refused(step, fault),
                tier: tier(step, fault),
            });
        }
    }
}

/// What a server asks once, before its first container.
fn first_launch(cells: &mut Vec<Cell>) {
    for step in [Step::Version, Step::Info, Step::Volume] {
        for fault in FAULTS {
            let expect = match (step, fault) {
                // There is a way without the daemon's version, or another volume is made.
                (Step::Volume, Fault::Status(404)) => Expect::Works,
                (Step::Version, Fault::Status(_) | Fault::ActsThen(_)) => {
                    Expect::Refused(&["no Docker daemon answers", "belljar doctor"])
                }
                _ => refused(step, fault),
            };
            cells.push(Cell {
                act: Act::Run,
                on: On::New,
                breaks: Break::Call {
                    step,
                    fault,
                    skip: 0,
                    // The server looks for what others left, and then the call comes.
                    times: if step == Step::Volume { 1 } else { 2 },
                },
                expect,
                tier: match fault {
                    Fault::Refuse | Fault::Mute => Tier::Always,
                    _ => Tier::Full,
                },
            });
        }
    }
}

/// A daemon that has no guest yet, and breaks while it gets one. The number is that of the step's calls that pass before.
fn seeding(cells: &mut Vec<Cell>) {
    let steps = [
        (Step::ImportImage, 0),
        (Step::CreateVolume, 0),
        (Step::CreateVolume, 1),
        (Step::Create, 0),
        (Step::Start, 0),
        (Step::Wait, 0),
        (Step::Remove, 0),
        (Step::RemoveImage, 0),
        (Step::RemoveVolume, 0),
    ];
    for (step, skip) in steps {
        for fault in [
            Fault::Refuse,
            Fault::Status(500),
            Fault::ActsThen(500),
            Fault::Lost,
        ] {
            let harmless = matches!(step, Step::Remove | Step::RemoveImage | Step::RemoveVolume);
            // What counts is how the container is after it, and it ends at once.
            let early = matches!(fault, Fault::Refuse | Fault::Status(_));
            let waits = step == Step::Wait;
            cells.push(Cell {
                act: Act::Run,
                on: On::New,
                breaks: Break::Seeding(step, fault, skip),
                expect: if waits && early {
                    Expect::WorksOrRefused
                } else if harmless || waits {
                    Expect::Works
                } else {
                    Expect::Refused(match (step, fault) {
                        (Step::Start, Fault::Status(_) | Fault::ActsThen(_)) => {
                            &["the volume with belljar's guest", "on cue"]
                        }
                        _ => words(step, fault),
                    })
                },
                tier: match fault {
                    Fault::Lost => Tier::Always,
                    _ => Tier::Full,
                },
            });
        }
    }
}

/// The end of a sandbox: what a caller was told does not change, and nothing stays.
fn ends(cells: &mut Vec<Cell>) {
    for fault in FAULTS {
        cells.push(Cell {
            act: Act::Run,
            on: On::Warm,
            breaks: call(Step::Remove, fault),
            expect: Expect::Works,
            tier: tier(Step::Remove, fault),
        });
        // The first one is the launch's.
        cells.push(Cell {
            act: Act::Run,
            on: On::Warm,
            breaks: Break::Call {
                step: Step::Inspect,
                fault,
                skip: 1,
                times: 1,
            },
            expect: Expect::Works,
            tier: match fault {
                Fault::Lost => Tier::Always,
                _ => Tier::Full,
            },
        });
        cells.push(Cell {
            act: Act::Overlong,
            on: On::Warm,
            breaks: Break::RunAndCall(Breach::Stall, Step::Kill, fault),
            expect: Expect::Ends("timed_out", PARTIAL),
            tier: tier(Step::Kill, fault),
        });
        cells.push(Cell {
            act: Act::Long,
            on: On::Warm,
            breaks: Break::RunAndCall(Breach::Cut, Step::Wait, fault),
            expect: Expect::Ends("sandbox_lost", PARTIAL),
            tier: tier(Step::Wait, fault),
        });
    }
    // More often than one removal is tried.
    cells.push(Cell {
        act: Act::Run,
        on: On::Warm,
        breaks: Break::Call {
            step: Step::Remove,
            fault: Fault::Status(500),
            skip: 0,
            times: 8,
        },
        expect: Expect::Works,
        tier: Tier::Always,
    });
}

/// With a pool: what breaks for later is no caller's trouble.
fn pool(cells: &mut Vec<Cell>) {
    for fault in FAULTS {
        for step in [Step::Update, Step::Events] {
            let (act, on) = match step {
                Step::Update => (Act::Raise, On::Pool),
                _ => (Act::Run, On::NewPool),
            };
            cells.push(Cell {
                act,
                on,
                breaks: call(step, fault),
                expect: Expect::Works,
                tier: match fault {
                    Fault::Status(500) | Fault::Lost | Fault::Mute => Tier::Always,
                    _ => Tier::Full,
                },
            });
        }
        // The second of each is the one that is to wait.
        for step in [Step::Create, Step::Attach, Step::Start] {
            cells.push(Cell {
                act: Act::Run,
                on: On::NewPool,
                breaks: Break::Call {
                    step,
                    fault,
                    skip: 1,
                    times: 1,
                },
                expect: Expect::Works,
                tier: match fault {
                    Fault::Lost => Tier::Always,
                    _ => Tier::Full,
                },
            });
        }
    }
}

/// Each phase of the stream, with each way to break it.
fn streams(cells: &mut Vec<Cell>) {
    for breach in BREACHES {
        let fine = breach == Breach::Pause;
        let hangs = breach == Breach::Stall;
        let quick = if hangs { Tier::Full } else { Tier::Always };
        let mut cell = |act, phase, expect, tier| {
            cells.push(Cell {
                act,
                on: On::Warm,
                breaks: Break::Stream(phase, breach),
                expect: if fine { Expect::Works } else { expect },
                tier,
            });
        };
        cell(
            Act::Run,
            Phase::Hello,
            Expect::RefusedOrLost(&["the sandbox's guest failed"]),
            Tier::Always,
        );
        let lost = Expect::Ends("sandbox_lost", PARTIAL);
        let late = Expect::Ends("timed_out", PARTIAL);
        // One that stands still closes nothing: its time is over before its pings are missed.
        cell(
            Act::Long,
            Phase::Run,
            if hangs { late } else { lost },
            quick,
        );
        if hangs {
            cell(Act::Overlong, Phase::Run, late, Tier::Always);
        }
        // Nobody turns bits of a file on a socket of this machine, and there is no sum to tell.
        if breach == Breach::Corrupt {
            continue;
        }
        cell(
            Act::Upload,
            Phase::Upload,
            Expect::Refused(&["a fresh run", "may succeed"]),
            quick,
        );
        // The program had ended: all that is missing is its file.
        cell(
            Act::Run,
            Phase::Collect,
            Expect::Ends("exited", "done\n"),
            quick,
        );
    }
}

/// Sessions: as runs, and their end.
fn sessions(cells: &mut Vec<Cell>) {
    for fault in FAULTS {
        cells.push(Cell {
            act: Act::Open,
            on: On::Warm,
            breaks: call(Step::Start, fault),
            expect: refused(Step::Start, fault),
            tier: match fault {
                Fault::Lost => Tier::Always,
                _ => Tier::Full,
            },
        });
        cells.push(Cell {
            act: Act::Close,
            on: On::Warm,
            breaks: call(Step::Remove, fault),
            expect: match fault {
                Fault::Stall | Fault::Mute => Expect::Refused(&["is closed", "goes on trying"]),
                _ => Expect::Works,
            },
            tier: match fault {
                Fault::Lost | Fault::Status(500) => Tier::Always,
                _ => Tier::Full,
            },
        });
    }
}

/// Runs with a way out: their launch, and both directions of what they ask.
fn ways_out(cells: &mut Vec<Cell>) {
    for step in [Step::Create, Step::Attach, Step::Start] {
        for fault in FAULTS {
            cells.push(Cell {
                act: Act::Ask,
                on: On::Warm,
                breaks: call(step, fault),
                expect: refused(step, fault),
                tier: match fault {
                    Fault::Lost => Tier::Always,
                    _ => Tier::Full,
                },
            });
        }
    }
    for act in [Act::Ask, Act::AskIn] {
        for phase in [Phase::Ask, Phase::Reply] {
            for breach in BREACHES {
                cells.push(Cell {
                    act,
                    on: On::Warm,
                    breaks: Break::Stream(phase, breach),
                    expect: match breach {
                        Breach::Pause => Expect::Works,
                        Breach::Stall => Expect::Ends("timed_out", PARTIAL),
                        _ => Expect::Ends("sandbox_lost", PARTIAL),
                    },
                    tier: match (act, breach) {
                        (Act::AskIn, Breach::Cut | Breach::Stall)
                        | (Act::Ask, Breach::Pause | Breach::EndOut | Breach::EndIn) => {
                            Tier::Always
                        }
                        _ => Tier::Full,
                    },
                });
            }
        }
    }
}

/// Files on their way into a session and out of it; and whatever needs no daemon, while there is none.
fn files(cells: &mut Vec<Cell>) {
    for (act, phase) in [(Act::Put, Phase::Upload), (Act::Take, Phase::Collect)] {
        for breach in BREACHES {
            // As with the files of a run: there is no sum to tell.
            if breach == Breach::Corrupt {
                continue;
            }
            cells.push(Cell {
                act,
                on: On::Warm,
                breaks: Break::Stream(phase, breach),
                expect: match breach {
                    Breach::Pause => Expect::Works,
                    _ => Expect::Refused(&["a new session", "may succeed"]),
                },
                tier: match breach {
                    Breach::Stall => Tier::Full,
                    _ => Tier::Always,
                },
            });
        }
    }
    for act in [Act::Fetch, Act::Take, Act::Hold, Act::Put, Act::AskIn] {
        for fault in FAULTS {
            cells.push(Cell {
                act,
                on: On::Warm,
                breaks: Break::Every(fault),
                expect: Expect::Works,
                tier: match fault {
                    Fault::Refuse | Fault::Stall => Tier::Always,
                    _ => Tier::Full,
                },
            });
        }
    }
}
