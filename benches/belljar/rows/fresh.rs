//! A program in a fresh container from a warm pool, side by side with `docker run` and with the start of the bare
//! interpreter inside a container that runs already.

use crate::{
    client::Server,
    context::{Context, Runtime},
    docker,
    inside::Inside,
    program::{CONSOLE, ECHO, PANDAS, PRINT, Program},
    quiet::settle,
    report::{Lacking, Reach, Report},
    stats::Series,
};

/// Runs before the first round, which fill the pool: it starts empty on standard input and output.
const RUNS_TO_WARM: usize = 3;
/// Makes the home that belljar gives to each program: without it matplotlib would first look through all fonts, for
/// seconds.
const WITH_HOME: [&str; 4] = [
    "sh",
    "-c",
    "cp -a /usr/share/belljar/skel \"$HOME\" && exec \"$@\"",
    "sh",
];

struct Case {
    program: &'static Program,
    runtime: Runtime,
    /// Whether the program reads its home.
    home: Home,
    /// Of the ratio to `docker run`.
    docker: Reach,
    /// Of the ratio to the bare interpreter; `None` where it is not measured.
    bare: Option<Reach>,
    /// Where the time goes that is left to win, for a reach that is missed.
    remaining: &'static str,
}

#[derive(PartialEq, Eq)]
enum Home {
    Read,
    Unused,
}

const FIFTIETH: Reach = Reach::AtMost(1.0 / 50.0);

pub(super) fn python(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    let case = Case {
        program: &PRINT,
        runtime: Runtime::Default,
        home: Home::Unused,
        docker: FIFTIETH,
        bare: Some(Reach::AtMost(0.5)),
        remaining: "the way from the server through the daemon and the container's shim to the guest and back (`start`, four \
                    processes to wake after a pause), and the interpreter's own end: a third for taking its objects apart, a \
                    third for the kernel to take back its memory.",
    };
    measure(context, rounds, &case)
}

pub(super) fn pandas(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    let case = Case {
        program: &PANDAS,
        runtime: Runtime::Default,
        home: Home::Read,
        docker: Reach::Told,
        bare: Some(FIFTIETH),
        remaining: "the end of the process. The program has printed long before (a few milliseconds after it was handed over); then the interpreter \
                    takes the libraries apart (its table of interned strings and the modules that were imported), and the \
                    kernel takes back 100 MiB. Neither can be left out without changing what a program sees at its end.",
    };
    measure(context, rounds, &case)
}

pub(super) fn javascript(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    let case = Case {
        program: &CONSOLE,
        runtime: Runtime::Default,
        home: Home::Unused,
        docker: Reach::Told,
        bare: Some(Reach::AtMost(1.0)),
        remaining: "",
    };
    measure(context, rounds, &case)
}

pub(super) fn bash(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    let case = Case {
        program: &ECHO,
        runtime: Runtime::Default,
        home: Home::Unused,
        docker: Reach::Told,
        bare: Some(Reach::AtMost(1.0)),
        remaining: "the way from the server through the daemon and the container's shim to the guest and back, four processes \
                    to wake after a pause: `start` is nearly half of the whole. The shell's own part is `run`.",
    };
    measure(context, rounds, &case)
}

pub(super) fn gvisor(context: &Context, rounds: usize) -> anyhow::Result<Report> {
    if !docker::has_runtime("runsc")? {
        let why = "the daemon has no runtime `runsc`; `scripts/gvisor.sh` installs it";
        return Err(Lacking(why.to_owned()).into());
    }
    let case = Case {
        program: &PRINT,
        runtime: Runtime::Runsc,
        home: Home::Unused,
        docker: FIFTIETH,
        bare: None,
        remaining: "every system call of the interpreter's end and of the guest goes through gVisor's kernel, and so does the \
                    way to the guest and back (`start`).",
    };
    measure(context, rounds, &case)
}

fn measure(context: &Context, rounds: usize, case: &Case) -> anyhow::Result<Report> {
    let program = case.program;
    let blueprint = context.blueprint(program.language, case.runtime)?;
    let inline = program.inline();
    let command = match case.home {
        Home::Read => [&WITH_HOME[..], &inline].concat(),
        Home::Unused => inline.to_vec(),
    };
    let docker_run = blueprint.docker_run(&[], &command)?;
    let mut bare = match case.bare {
        None => None,
        Some(reach) => Some(Bare {
            reach,
            inline: Inside::start(&blueprint, program, &inline)?,
            file: Inside::start(&blueprint, program, &program.in_file())?,
        }),
    };
    let server = Server::start(case.runtime.config(), &[])?;
    for _ in 0..RUNS_TO_WARM {
        server.run(program, None)?;
        settle();
    }
    let (mut ours, mut docker) = (
        Series::new("belljar: `run_code`, fresh container"),
        Series::new("`docker run`, same hardening"),
    );
    let start = program.inline()[..2].join(" ");
    let (mut by_text, mut by_file) = (
        Series::new(format!("bare `{start}` inside a running container")),
        Series::new("bare, the program in a file"),
    );
    for _ in 0..rounds {
        settle();
        ours.record_run(server.run(program, None));
        settle();
        docker.record(docker::timed_run(&docker_run, program.prints));
        if let Some(bare) = &mut bare {
            settle();
            by_text.record(bare.inline.once());
            settle();
            by_file.record(bare.file.once());
        }
    }
    server.stop()?;

    let mut report = Report::new(format!(
        "`{}` over MCP on standard input and output, from the call to its answer, in a single-use container; the \
         `docker run` command from its start to its end{}{}.",
        program.code.replace('\n', "; "),
        match case.home {
            Home::Read => ", with the home that belljar copies for each container",
            Home::Unused => "",
        },
        match case.bare {
            Some(_) => {
                "; and the bare interpreter, started by bash in a running container and measured there, from before its \
                 fork to after its end, which no `docker exec` is part of"
            }
            None => "",
        },
    ));
    report.ratio(
        "p50 to `docker run`",
        ours.p50()?,
        docker.p50()?,
        case.docker,
    );
    let reach = bare.map(|bare| bare.reach);
    report.series = vec![ours, docker];
    if let Some(reach) = reach {
        let ours = report.series[0].p50()?;
        report.ratio("p50 to the bare start", ours, by_text.p50()?, reach);
        report.series.extend([by_text, by_file]);
    }
    report.remaining(case.remaining);
    if !context.has_pool {
        report.note("this build of belljar has no pool: every container was made for its run");
    }
    Ok(report)
}

/// Containers in which the interpreter is started, from an argument and from a file.
struct Bare {
    reach: Reach,
    inline: Inside,
    file: Inside,
}
