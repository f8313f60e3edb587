//! Plays the matrix: for each cell a fault, a call, its answer within its deadline, and then everything in order.
//!
//! Servers are used again from cell to cell: that is how it shows that they recover without a restart.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    act::{self, Before},
    api,
    cell::{Act, Break, Cell, Expect, On, Tier},
    cells,
    proxy::{Fault, Proxy},
    pump::Breach,
    server::{PATIENCE, Server, Setup, said, start, until, verify},
    step::{Phase, Step},
    table::{Row, name, print, short},
};

/// Servers at a time: most of them wait.
const SERVERS: usize = 6;
/// Cells that one server goes through.
const CHAIN: usize = 8;
/// How much later than the deadline an answer may come on a machine that has too much to do, in seconds.
const GRACE: u64 = 40;
/// How long something may stay that the daemon was asked to make, or was told to remove.
const SETTLED: Duration = Duration::from_secs(150);
/// Files that a server may have open more than before: connections to its daemon that it keeps for a while.
const KEPT_FILES: usize = 4;

/// Characters of an answer that are looked at; no refusal has so many.
const MAX_SAID: usize = 2000;
/// Calls until one has met a sandbox that waits.
const MAX_TRIES: usize = 10;
/// How much longer each of them waits before it.
const PAUSE: Duration = Duration::from_millis(100);
/// How long nothing is asked of the daemon once a server is at rest. A removal asks once more after its container is gone.
const QUIET: Duration = Duration::from_secs(1);

const NO_POOL: &str = "[pool]\nmax = 0\n";
const POOL: &str = "[pool]\nmax = 1\n";

#[test]
fn whatever_breaks_is_answered_recorded_and_gone() {
    play(
        cells::all()
            .into_iter()
            .filter(|cell| cell.tier == Tier::Always)
            .collect(),
    );
}

#[test]
#[ignore = "takes some minutes: `make faults`"]
fn whatever_breaks_in_whichever_way() {
    play(cells::all());
}

/// A server with its proxy, and what it had before anything broke.
struct World {
    server: Server,
    proxy: Proxy,
    daemon: PathBuf,
    directory: tempfile::TempDir,
    instance: String,
    config: String,
    open_files: Option<usize>,
    /// Calls of a cell until one met its fault.
    tries: usize,
}

impl World {
    /// With `first` broken from the start: a server asks for its daemon's host before anybody calls.
    fn start(pool: &str, first: Option<Break>) -> Self {
        let config = format!("{pool}{}", act::profile());
        let directory = tempfile::tempdir().unwrap();
        let daemon = api::daemon();
        let proxy = Proxy::start(directory.path(), &daemon);
        if let Some(first) = first {
            arm(&proxy, first);
        }
        let server = start(setup(&directory, proxy.socket(), &config));
        let instance = server.instance();
        Self {
            server,
            proxy,
            daemon,
            directory,
            instance,
            config,
            open_files: None,
            tries: 1,
        }
    }

    fn containers(&self) -> Vec<String> {
        api::containers(&self.daemon, &self.instance)
    }
}

fn setup<'a>(directory: &'a tempfile::TempDir, docker: &'a Path, config: &'a str) -> Setup<'a> {
    Setup {
        state: directory.path(),
        beside: directory.path(),
        docker,
        config,
        files: None,
        clock: None,
    }
}

fn play(cells: Vec<Cell>) {
    let began = Instant::now();
    let wanted = std::env::var("BELLJAR_FAULTS").unwrap_or_default();
    let cells: Vec<Cell> = cells
        .into_iter()
        .filter(|cell| name(cell).contains(&wanted))
        .collect();
    let count = cells.len();
    assert!(count > 0, "no cell is called {wanted:?}");
    let chains = Mutex::new(chains(cells));
    let rows = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..SERVERS {
            scope.spawn(|| {
                loop {
                    let chain = chains.lock().unwrap().pop_front();
                    let Some(chain) = chain else { return };
                    let done = play_chain(&chain);
                    rows.lock().unwrap().extend(done);
                }
            });
        }
    });
    let rows = rows.into_inner().unwrap();
    print(&rows);
    println!("{} cells in {} s", rows.len(), began.elapsed().as_secs());
    let wrong: Vec<String> = rows
        .iter()
        .filter(|row| !row.wrong.is_empty())
        .map(|row| format!("{}: {}", name(&row.cell), row.wrong.join("; ")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(rows.len(), count, "every cell was played");
}

/// The longest waits first, so that they do not come last; the others by the kind of their server.
fn chains(cells: Vec<Cell>) -> VecDeque<Vec<Cell>> {
    let mut chains: Vec<Vec<Cell>> = Vec::new();
    for cell in cells {
        let fits = chains.iter_mut().find(|chain| {
            let alone = matches!(cell.on, On::New | On::NewPool)
                || deadline(&cell) > GRACE
                || is_asked_in_the_background(&cell);
            !alone
                && chain.len() < CHAIN
                && chain[0].on == cell.on
                && deadline(&chain[0]) <= GRACE
                && !is_asked_in_the_background(&chain[0])
        });
        match fits {
            Some(chain) => chain.push(cell),
            None => chains.push(vec![cell]),
        }
    }
    chains.sort_by_key(|chain| std::cmp::Reverse(deadline(&chain[0])));
    chains.into()
}

/// How long the answer may take, in seconds.
fn deadline(cell: &Cell) -> u64 {
    let waits = |step: Step, fault| match fault {
        Fault::Stall | Fault::Mute => step.deadline(),
        _ => 0,
    };
    GRACE
        + match cell.breaks {
            Break::Call { step, fault, .. }
            | Break::RunAndCall(_, step, fault)
            | Break::Seeding(step, fault, _) => waits(step, fault),
            // Pings, or what a file's request may be without a sign of life.
            Break::Stream(phase, Breach::Stall)
                if phase != Phase::Hello && cell.act != Act::Overlong && !cell.act.goes_out() =>
            {
                60
            }
            Break::Stream(..) | Break::Every(_) => 0,
        }
}

fn play_chain(chain: &[Cell]) -> Vec<Row> {
    let pool = matches!(chain[0].on, On::Pool | On::NewPool);
    let first = (chain[0].on == On::New).then_some(chain[0].breaks);
    let mut world = World::start(if pool { POOL } else { NO_POOL }, first);
    let mut rows: Vec<Row> = chain
        .iter()
        .map(|cell| play_cell(&mut world, *cell))
        .collect();
    let wrong = &mut rows.last_mut().unwrap().wrong;
    end(world, wrong);
    for row in rows.iter().filter(|row| !row.wrong.is_empty()) {
        eprintln!("{}: {}", name(&row.cell), row.wrong.join("; "));
    }
    rows
}

/// The server ends in good order, leaves nothing, and its record holds.
fn end(mut world: World, wrong: &mut Vec<String>) {
    let code = world.server.close();
    if code != Some(0) {
        wrong.push(format!("the server ended with {code:?}"));
    }
    let left = world.containers();
    if !left.is_empty() {
        wrong.push(format!("left by the end: {left:?}"));
    }
    let whole = setup(&world.directory, world.proxy.socket(), &world.config);
    if let Err(error) = verify(whole) {
        wrong.push(format!("the record does not hold: {error}"));
    }
    if let Ok(directory) = std::env::var("BELLJAR_FAULTS_LOGS") {
        let to = Path::new(&directory).join(&world.instance);
        let _ = std::fs::copy(world.directory.path().join("log"), to);
    }
}

fn play_cell(world: &mut World, cell: Cell) -> Row {
    let mut wrong = Vec::new();
    prepare(world, cell, &mut wrong);
    let there = Before::of(cell.act, &mut world.server);
    if cell.act == Act::Fetch {
        // What is left of the run that it is of is no part of this.
        until(PATIENCE, || world.containers().is_empty());
    }
    if is_asked_in_the_background(&cell) && !is_at_rest(world) {
        wrong.push("the daemon is asked without end".to_owned());
    }
    let before = world.server.audit().len();
    let new = cell.on == On::New;
    let fired = if new { 0 } else { world.proxy.fired() };
    if !new {
        arm(&world.proxy, cell.breaks);
    }
    let began = Instant::now();
    world.tries = 1;
    let mut answer = act(world, cell, &there);
    // One that is started for later waits only a moment after its container runs: each try gives it longer.
    while cell.on == On::Pool && world.proxy.fired() == fired && world.tries < MAX_TRIES {
        thread::sleep(PAUSE * u32::try_from(world.tries).unwrap());
        world.tries += 1;
        answer = act(world, cell, &there);
    }
    let seconds = began.elapsed().as_secs();
    // Some of it comes only once the answer has gone.
    let due = match cell.breaks {
        // The server's own look-up at its start, and the call's; or one for both.
        Break::Call { .. } if new => 1,
        Break::Call { times, .. } => u64::from(times),
        Break::Stream(..) => 1,
        Break::RunAndCall(..) | Break::Seeding(..) => 2,
        Break::Every(_) => 0,
    };
    if let Break::Every(fault) = cell.breaks
        && !daemon_fails(world, fault)
    {
        wrong.push("the daemon did not fail".to_owned());
    }
    if !until(PATIENCE, || world.proxy.fired() >= fired + due) {
        let count = world.proxy.fired() - fired;
        wrong.push(format!("nothing broke: {count} of {due}"));
    }
    world.proxy.heal();
    match &answer {
        None => wrong.push(format!("no answer in {} s", deadline(&cell))),
        Some(answer) => wrong.extend(judge(cell, answer)),
    }
    if let Err(why) = world.server.works(PATIENCE) {
        wrong.push(format!("the next call fails: {why}"));
    }
    recorded(world, cell, before, answer.as_ref(), &mut wrong);
    if let Err(why) = there.end(&mut world.server, is_lost(&cell)) {
        wrong.push(why);
    }
    gone(world, cell, &mut wrong);
    Row {
        cell,
        seconds,
        answer: answer.map_or_else(|| "none".to_owned(), |answer| short(&answer)),
        wrong,
    }
}

/// Has the server as the cell wants it.
fn prepare(world: &mut World, cell: Cell, wrong: &mut Vec<String>) {
    match cell.on {
        On::New | On::NewPool => {}
        On::Warm => {
            if world.open_files.is_none() {
                if let Err(why) = world.server.works(PATIENCE) {
                    wrong.push(format!("it did not work before: {why}"));
                }
                if !until(PATIENCE, || world.containers().is_empty()) {
                    wrong.push(format!(
                        "left by what went before: {:?}",
                        world.containers()
                    ));
                }
                world.open_files = Some(world.server.process.open_files());
            }
        }
        On::Pool => {
            if let Err(why) = world.server.works(PATIENCE) {
                wrong.push(format!("it did not work before: {why}"));
            }
            // The used one is gone, and one waits.
            let first = world.containers();
            let waits = until(PATIENCE, || {
                let now = world.containers();
                now.len() == 1 && now == world.containers() && runs(world, &now[0])
            });
            if !waits {
                wrong.push(format!("nothing waits: {first:?}"));
            }
        }
    }
}

/// Whether the server asks the daemon the same in the background too, after something failed: there the fault would be
/// met by another call than it is meant for. So nothing may have failed on this server before, and it has to be at rest.
fn is_asked_in_the_background(cell: &Cell) -> bool {
    matches!(
        cell.breaks,
        Break::Call {
            step: Step::Inspect | Step::List,
            ..
        }
    )
}

/// Waits until nothing is asked of the daemon any more.
fn is_at_rest(world: &World) -> bool {
    until(PATIENCE, || {
        let asked = world.proxy.asked();
        thread::sleep(QUIET);
        world.proxy.asked() == asked
    })
}

/// Whether a container runs.
fn runs(world: &World, name: &str) -> bool {
    let path = format!("/containers{name}/json");
    let found = api::ask(&world.daemon, "GET", &path);
    found.is_ok_and(|(_, body)| body["State"]["Running"] == true)
}

/// Whether a session is lost by what breaks.
fn is_lost(cell: &Cell) -> bool {
    cell.act.in_session()
        && matches!(cell.breaks, Break::Stream(_, breach) if breach != Breach::Pause)
}

/// Whether the daemon, as the server sees it, fails: asked for what it answers at once.
fn daemon_fails(world: &World, fault: Fault) -> bool {
    match fault {
        // These answer late, or never.
        Fault::Delay | Fault::Stall | Fault::Mute => true,
        Fault::Refuse
        | Fault::Status(_)
        | Fault::ActsThen(_)
        | Fault::Lost
        | Fault::Cut
        | Fault::Garbage => {
            let answer = api::ask(world.proxy.socket(), "GET", "/version");
            !answer.is_ok_and(|(status, body)| status == 200 && body["ApiVersion"].is_string())
        }
    }
}

fn arm(proxy: &Proxy, breaks: Break) {
    match breaks {
        Break::Call {
            step,
            fault,
            skip,
            times,
        } => proxy.arm(step, fault, skip, times),
        Break::Stream(phase, breach) => proxy.arm_stream(phase, breach),
        Break::RunAndCall(breach, step, fault) => {
            proxy.arm_stream(Phase::Run, breach);
            proxy.arm(step, fault, 0, 1);
        }
        Break::Seeding(step, fault, skip) => {
            proxy.arm(Step::Volume, Fault::Status(404), 0, 1);
            proxy.arm(step, fault, skip, 1);
        }
        Break::Every(fault) => proxy.arm_every(fault),
    }
}

fn act(world: &mut World, cell: Cell, there: &Before) -> Option<Value> {
    let (tool, arguments) = act::call(cell.act, there);
    let limit = Duration::from_secs(deadline(&cell));
    let answer = world.server.tool(tool, &arguments, limit)?;
    if cell.act == Act::Open
        && let Some(session) = answer["structuredContent"]["session"].as_str()
    {
        act::close(&mut world.server, session);
    }
    Some(answer)
}

/// What is wrong with an answer.
fn judge(cell: Cell, answer: &Value) -> Vec<String> {
    let text: String = said(answer).chars().take(MAX_SAID).collect();
    let mut wrong = Vec::new();
    let result = &answer["structuredContent"];
    let kept = act::said_by(result);
    match cell.expect {
        Expect::WorksOrRefused if answer["isError"] == true => {}
        Expect::Works | Expect::WorksOrRefused => {
            let out = act::output(cell.act);
            if answer["isError"] != false || kept != out {
                wrong.push(format!("it did not work: {text}"));
            }
            if cell.act.goes_out() && result["egress"]["allowed"][0]["count"] != 1 {
                wrong.push(format!("what it reached is not told: {}", result["egress"]));
            }
        }
        Expect::RefusedOrLost(_) if result["status"] == "sandbox_lost" && kept.is_empty() => {}
        Expect::Refused(words) | Expect::RefusedOrLost(words) => {
            if answer["isError"] != true {
                wrong.push(format!("it was not refused: {text}"));
            }
            for word in words {
                if !text.contains(word) {
                    wrong.push(format!("{word:?} is not in: {text}"));
                }
            }
            if text.contains(['\u{1b}', '\u{202e}']) || text.chars().count() == MAX_SAID {
                wrong.push(format!("raw words: {text:?}"));
            }
        }
        Expect::Ends(status, out) => {
            if result["status"] != status {
                wrong.push(format!("{status} expected: {text}"));
            }
            if !kept.starts_with(out) {
                wrong.push(format!("{out:?} was not kept: {kept:?}"));
            }
        }
    }
    wrong
}

/// Each call has its line, and each run that began a line from before.
fn recorded(
    world: &World,
    cell: Cell,
    before: usize,
    answer: Option<&Value>,
    wrong: &mut Vec<String>,
) {
    let lines = world.server.audit().split_off(before);
    let of = |action: &str| -> Vec<&Value> {
        lines
            .iter()
            .filter(|line| line["action"] == action)
            .collect()
    };
    let action = cell.act.action();
    let ours = of(action);
    let count = match action {
        "run_code" => 1 + world.tries,
        _ => 1,
    };
    if ours.len() != count {
        wrong.push(format!("{} lines of {count}", ours.len()));
        return;
    }
    // Of several tries the last one is judged.
    let (line, refused) = (
        ours[if action == "run_code" {
            world.tries - 1
        } else {
            0
        }],
        answer.is_some_and(|answer| answer["isError"] == true),
    );
    if refused != line["error"].is_string() || line["decision"]["verdict"] != "allow" {
        wrong.push(format!("the record says otherwise: {line}"));
    }
    // What came through the way out was on record before it had its answer.
    let through = match cell.breaks {
        Break::Stream(phase, breach) => phase == Phase::Reply || breach == Breach::Pause,
        _ => !refused,
    };
    let asked = of("egress");
    let allowed = |line: &&Value| line["decision"]["verdict"] == "allow";
    if cell.act.goes_out() && through && (asked.is_empty() || !asked.iter().all(allowed)) {
        wrong.push(format!("the record has of its way out: {asked:?}"));
    }
    let begun = of("begin_run").len();
    let runs = count - usize::from(refused && action == "run_code");
    if begun != runs && action == "run_code" {
        wrong.push(format!(
            "{begun} of {runs} runs were on record from their begin"
        ));
    }
    if action == "run_code"
        && let Some(status) = answer.and_then(|it| it["structuredContent"]["status"].as_str())
        && line["outcome"]["status"] != status
    {
        wrong.push(format!("the record has another outcome: {line}"));
    }
}

/// Nothing stays: no container, no volume and no image of a seeding, no file that is open.
fn gone(world: &World, cell: Cell, wrong: &mut Vec<String>) {
    let most = match cell.on {
        On::Warm | On::New => 0,
        On::Pool | On::NewPool => 1,
    };
    if !until(SETTLED, || world.containers().len() <= most) {
        wrong.push(format!("left: {:?}", world.containers()));
    }
    for (step, name) in world.proxy.made() {
        let kind = match step {
            Step::CreateVolume => "volumes",
            Step::ImportImage => "images",
            _ => continue,
        };
        // A name without chance in it is the pointer, which stays, and what it points to.
        let stays = || {
            let seeded = name.rsplit('-').next().is_some_and(|end| end.len() >= 20);
            kind == "volumes" && (!seeded || pointed_to(world, &name))
        };
        if !until(SETTLED, || {
            stays() || !api::is_there(&world.daemon, kind, &name)
        }) {
            wrong.push(format!("left: {kind} {name}"));
        }
    }
    if let Some(before) = world.open_files
        && !until(PATIENCE, || {
            world.server.process.open_files() <= before + KEPT_FILES
        })
    {
        let now = world.server.process.open_files();
        wrong.push(format!("{now} files are open, {before} were"));
    }
    if !until(PATIENCE, || world.proxy.hanging() == 0) {
        wrong.push("connections hang".to_owned());
    }
}

/// Whether the daemon's pointer is to this volume.
fn pointed_to(world: &World, name: &str) -> bool {
    let pointer = name.rsplit_once('-').unwrap().0;
    let found = api::ask(&world.daemon, "GET", &format!("/volumes/{pointer}"));
    found.is_ok_and(|(_, body)| body["Labels"]["belljar.volume"] == name)
}
