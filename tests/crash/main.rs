//! The server is killed, again and again, in the middle of everything, and started anew: nothing is left, what it
//! promised holds, and the record is whole as far as it goes.
//!
//! The real program under a mixed load, on a real Docker daemon with the images `belljar/bash:latest` and
//! `belljar/python:latest`; without them these tests fail, and say so. Each moment is chosen by chance, or by what the
//! server has just done ([`aim`]). A failure names its seed: the same seed draws the same loads and aims, though the
//! machine's own timing stays its own.
//!
//! | variable | |
//! |---|---|
//! | `BELLJAR_CRASH_KILLS` | how often the server is killed; 16, and 200 in `make crash` |
//! | `BELLJAR_CRASH_SEED` | the seed of an earlier run |
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too, and has settings of its own"
)]
#![cfg(unix)]

mod aim;
mod chance;
mod docker;
mod load;
mod server;
mod world;

use std::time::{Duration, Instant};

use aim::{Aim, Watch};
use chance::Chance;
use docker::Events;
use load::Load;
use server::Way;
use world::World;

/// Kills in the ordinary test suite.
const FEW: u64 = 16;
/// The same of servers whose clients come over HTTP; of a number that is asked for, this part.
const FEW_OVER_HTTP: u64 = 5;
const PART_OVER_HTTP: u64 = 4;
/// Kills between two looks at everything that is left.
const BETWEEN_LOOKS: u64 = 8;
/// How long a server is left alone whose aimed moment does not come.
const NO_LONGER: Duration = Duration::from_secs(4);

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a whole number"))
}

#[test]
fn a_server_that_is_killed_at_any_moment_leaves_nothing_and_keeps_what_it_promised() {
    kill_and_look(Way::Pipes, variable("BELLJAR_CRASH_KILLS").unwrap_or(FEW));
}

#[test]
fn a_server_over_http_that_is_killed_leaves_nothing_and_keeps_what_it_promised() {
    let kills = variable("BELLJAR_CRASH_KILLS").map(|kills| kills.div_ceil(PART_OVER_HTTP));
    kill_and_look(Way::Http, kills.unwrap_or(FEW_OVER_HTTP));
}

fn kill_and_look(way: Way, kills: u64) {
    let seed = variable("BELLJAR_CRASH_SEED").unwrap_or_else(chance::seed);
    eprintln!("{way:?}, {kills} kills; to repeat: BELLJAR_CRASH_SEED={seed}");
    let mut chance = Chance::new(seed);
    let mut world = World::new(way);
    let events = Events::follow();
    let mut hits = 0;
    for kill in 1..=kills {
        let aim = Aim::nth(kill, way, &mut chance);
        let mut server = world.start();
        let mut load = Load::new(&world, chance.split());
        let mut watch = Watch::new(aim, &world, &server, &events);
        let started = Instant::now();
        while !watch.now() && started.elapsed() < NO_LONGER {
            load.step(&mut server.client, &mut world.promised);
            watch.wish(&mut server);
        }
        let hit = watch.now();
        hits += u64::from(hit);
        server.client.process.kill();
        // What had left it before it died was promised as well.
        load.rest(&mut server.client, &mut world.promised);
        eprintln!(
            "{way:?} {kill}: {aim:?}{} after {} ms, {} calls, {} answers",
            if hit { "" } else { " did not come" },
            started.elapsed().as_millis(),
            load.sent(),
            load.answered(),
        );
        if kill % BETWEEN_LOOKS == 0 || kill == kills {
            world.look();
        }
    }
    eprintln!("{}", world.summary());
    // Fewer only where the machine is too slow for what is aimed at.
    assert!(
        hits * 5 >= kills,
        "the moments that were aimed at did not come: {hits} of {kills}"
    );
}
