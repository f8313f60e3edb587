//! Each decision, and for each denial its reason.

use super::*;
use crate::config::{FileOrigin, Settings};
use crate::types::TokenId;

/// A policy of an operator with a language of their own and small ceilings.
fn policy() -> Policy {
    let text = r#"
        [limits]
        timeout_seconds = 20
        [limits.ceiling]
        memory_mib = 1024
        timeout_seconds = 60
        [sessions]
        ttl_seconds = 600
        ttl_ceiling_seconds = 3600
        [[language]]
        name = "ruby"
        aliases = ["rb"]
        image = "ruby:3-alpine"
        program = ".main.rb"
        command = ["ruby", "--disable-gems", "{program}"]
        env = { RUBYOPT = "-W0", A = "language" }
        shm_mib = 32
    "#;
    Policy::new(&Settings::parse(text, FileOrigin::BuiltIn, Cpus::from_millis(2000)).unwrap())
}

fn ask(language: &str) -> RunAsk {
    RunAsk {
        language: language.to_owned(),
        code: "1".to_owned(),
        ..RunAsk::default()
    }
}

fn session(language: &str) -> SessionAsk {
    SessionAsk {
        language: language.to_owned(),
        ..SessionAsk::default()
    }
}

fn terms(language: &str) -> SessionTerms {
    let opened = policy().open_session(&Caller::Local, &session(language));
    opened.unwrap().1
}

fn fresh(ask: RunAsk) -> Result<(Launch, RunPlan), Denial> {
    let (launch, plan) = policy().fresh_run(&Caller::Local, ask)?;
    assert_eq!(launch.caller(), &Caller::Local);
    Ok((launch.action().clone(), plan.action().clone()))
}

fn reason<T>(result: Result<T, Denial>) -> &'static str {
    result.err().map_or("allowed", |denial| denial.reason())
}

#[test]
fn a_fresh_run_gets_the_defaults_and_exactly_its_command() {
    let (launch, plan) = fresh(RunAsk {
        args: vec!["a b".to_owned(), "{program}".to_owned()],
        ..ask("rb")
    })
    .unwrap();
    let expected = Launch {
        image: "ruby:3-alpine".to_owned(),
        shm_mib: 32,
        limits: Limits::DEFAULT,
        warm_up: None,
    };
    assert_eq!(launch, expected);
    // A caller's argument is never a place for ours.
    assert_eq!(
        plan.argv,
        [
            "ruby",
            "--disable-gems",
            "/workspace/.main.rb",
            "a b",
            "{program}"
        ]
    );
    assert_eq!((plan.language.as_str(), plan.args), ("ruby", 2));
    assert_eq!(plan.program.as_bytes(), b".main.rb");
    assert_eq!(plan.timeout, WallTime::from_secs(20));
    assert_eq!(plan.output_kib, Limits::DEFAULT.output_kib);
}

#[test]
fn a_waiting_interpreter_is_for_programs_that_would_not_notice() {
    let start = |language: &str, args: &[&str], env: &[&str]| {
        let (launch, plan) = fresh(RunAsk {
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: env
                .iter()
                .map(|&name| (name.to_owned(), String::new()))
                .collect(),
            ..ask(language)
        })
        .unwrap();
        (launch.warm_up.is_some(), plan.start)
    };
    let (warm, cold) = ((true, Start::Warm), (true, Start::Cold));
    assert_eq!(start("python", &["x"], &["GREETING"]), warm);
    for name in [
        "PYTHONHASHSEED",
        "OMP_NUM_THREADS",
        "MPLBACKEND",
        "TZ",
        "LANG",
        "HOME",
        "PATH",
    ] {
        assert_eq!(start("python", &[], &["GREETING", name]), cold, "{name}");
    }
    assert_eq!(start("javascript", &["x"], &["GREETING"]), warm);
    for name in ["NODE_OPTIONS", "NODE_ENV", "TZ", "LC_ALL"] {
        assert_eq!(start("javascript", &[], &[name]), cold, "{name}");
    }
    assert_eq!(start("bash", &[], &[]), warm);
    assert_eq!(start("bash", &["x"], &[]), cold);
    assert_eq!(start("bash", &[], &["GREETING"]), cold);
    assert_eq!(start("ruby", &[], &[]), (false, Start::Cold));
}

#[test]
fn an_interpreter_waits_with_what_every_program_has_and_the_hooks_own() {
    let (launch, plan) = fresh(ask("python")).unwrap();
    let warm_up = launch.warm_up.unwrap();
    assert_eq!(warm_up.argv, plan.argv);
    let mut expected = plan.environment(52007, Some("/image/bin"), &BTreeMap::new());
    for (name, value) in &warm_up.hook_env {
        assert!(expected.iter().all(|(known, _)| known != name), "{name}");
        expected.push((name.clone(), value.clone()));
    }
    expected.sort();
    assert!(!warm_up.hook_env.is_empty());
    assert_eq!(warm_up.environment(52007, Some("/image/bin")), expected);
}

#[test]
fn the_environment_is_ours_then_the_images_then_the_callers() {
    let env = [("A", "caller"), ("LANG", "de_DE.UTF-8")];
    let (_, plan) = fresh(RunAsk {
        env: env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..ask("ruby")
    })
    .unwrap();
    let shown: Vec<String> = plan
        .environment(52007, None, &BTreeMap::new())
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        shown,
        [
            "A=caller",
            "HOME=/workspace/.home",
            "LANG=de_DE.UTF-8",
            "LOGNAME=sandbox52007",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "RUBYOPT=-W0",
            "USER=sandbox52007",
        ]
    );
}

#[test]
fn an_unknown_language_is_answered_with_those_there_are() {
    let denial = fresh(ask("cobol\u{202e}")).unwrap_err();
    assert_eq!(denial.reason(), "unknown_language");
    let text = denial.to_string();
    for word in [
        "\"cobol\\u{202e}\"",
        "python",
        "javascript",
        "bash",
        "ruby (rb)",
    ] {
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(reason(fresh(ask("Python3"))), "allowed");
}

#[test]
fn only_the_networks_there_are() {
    let with = |network: &str| RunAsk {
        network: Some(network.to_owned()),
        ..ask("python")
    };
    assert_eq!(reason(fresh(with("none"))), "allowed");
    for bad in ["host", "bridge", "", "None", "container:x"] {
        assert_eq!(reason(fresh(with(bad))), "unknown_network", "{bad}");
    }
    let bad = SessionAsk {
        network: Some("packages".to_owned()),
        ..session("python")
    };
    let denial = policy().open_session(&Caller::Local, &bad).unwrap_err();
    assert_eq!(
        denial.to_string(),
        "no egress profile named \"packages\" is configured; there are: none. Leave network out to run without any"
    );
}

#[test]
fn who_may_name_a_profile_is_said_by_the_profile() {
    let text = r#"
        [egress.everybody]
        [egress.here]
        callers = ["local"]
        [egress.afar]
        callers = ["token"]
        [egress.nobody]
        callers = []
    "#;
    let settings = Settings::parse(text, FileOrigin::BuiltIn, Cpus::from_millis(2000));
    let policy = Policy::new(&settings.unwrap());
    let remote = Caller::Token(TokenId::of("token"));
    for (caller, theirs) in [
        (Caller::Local, ["everybody", "here"]),
        (remote, ["afar", "everybody"]),
    ] {
        assert_eq!(policy.networks(&caller), theirs);
        for network in ["everybody", "here", "afar", "nobody"] {
            let run = RunAsk {
                network: Some(network.to_owned()),
                ..ask("python")
            };
            let opening = SessionAsk {
                network: Some(network.to_owned()),
                ..session("python")
            };
            let expected = if theirs.contains(&network) {
                "allowed"
            } else {
                "unknown_network"
            };
            assert_eq!(reason(policy.fresh_run(&caller, run)), expected);
            assert_eq!(reason(policy.open_session(&caller, &opening)), expected);
        }
    }
}

#[test]
fn who_may_ask_for_packages_is_said_by_the_operator() {
    let text = r#"
        [packages]
        callers = ["local"]
        [packages.python]
    "#;
    let settings = Settings::parse(text, FileOrigin::BuiltIn, Cpus::from_millis(2000));
    let policy = Policy::new(&settings.unwrap());
    let remote = Caller::Token(TokenId::of("token"));
    for (caller, kinds, expected) in [
        (Caller::Local, vec![PackageKind::Python], "allowed"),
        (remote, vec![], "packages_caller"),
    ] {
        assert_eq!(policy.package_kinds(&caller), kinds);
        let run = RunAsk {
            packages: vec!["six".to_owned()],
            ..ask("python")
        };
        let opening = SessionAsk {
            packages: vec!["six".to_owned()],
            ..session("python")
        };
        assert_eq!(reason(policy.fresh_run(&caller, run)), expected);
        assert_eq!(reason(policy.open_session(&caller, &opening)), expected);
    }
}

#[test]
fn limits_and_times_stay_below_the_operators_ceilings() {
    let with = |limits| RunAsk {
        limits,
        ..ask("python")
    };
    let memory = |mib| {
        with(LimitsRequest {
            memory_mib: Some(mib),
            ..LimitsRequest::default()
        })
    };
    assert_eq!(reason(fresh(memory(1024))), "allowed");
    let denial = fresh(memory(1025)).unwrap_err();
    assert_eq!(denial.reason(), "limit");
    assert_eq!(
        denial.to_string(),
        "limits.memory_mib must lie between 64 and 1024"
    );
    let cpus = with(LimitsRequest {
        cpus: Some(2.5),
        ..LimitsRequest::default()
    });
    assert_eq!(
        fresh(cpus).unwrap_err().to_string(),
        "limits.cpus must lie between 0.1 and 2"
    );
    for (seconds, expected) in [
        (0.0, "limit"),
        (1e9, "limit"),
        (60.5, "limit"),
        (f64::NAN, "limit"),
        (60.0, "allowed"),
        (0.5, "allowed"),
    ] {
        let timed = RunAsk {
            timeout_seconds: Some(seconds),
            ..ask("python")
        };
        assert_eq!(reason(fresh(timed)), expected, "{seconds}");
    }
}

#[test]
fn a_lease_has_a_range_and_idle_is_never_longer() {
    let open = |ttl_seconds| {
        let ask = SessionAsk {
            ttl_seconds,
            ..session("python")
        };
        policy().open_session(&Caller::Local, &ask)
    };
    for (seconds, expected) in [
        (Some(0), "limit"),
        (Some(3601), "limit"),
        (Some(u64::MAX), "limit"),
        (Some(1), "allowed"),
        (Some(3600), "allowed"),
        (None, "allowed"),
    ] {
        assert_eq!(reason(open(seconds)), expected, "{seconds:?}");
    }
    let (_, terms, _) = open(Some(60)).unwrap();
    assert_eq!(terms.ttl, Duration::from_mins(1));
    assert_eq!(terms.idle, Duration::from_mins(1));
}

#[test]
fn a_session_runs_what_its_image_runs() {
    let policy = policy();
    let run =
        |terms: &SessionTerms, language| policy.session_run(&Caller::Local, terms, ask(language));
    assert_eq!(reason(run(&terms("py"), "python")), "allowed");
    assert_eq!(reason(run(&terms("py"), "sh")), "allowed");
    let denial = run(&terms("py"), "javascript").unwrap_err();
    assert_eq!(denial.reason(), "language_not_in_session");
    assert!(denial.to_string().contains("bash"), "{denial}");
    assert_eq!(
        reason(run(&terms("ruby"), "bash")),
        "language_not_in_session"
    );
}

#[test]
fn a_sessions_limits_and_network_stay_as_they_are() {
    let policy = policy();
    let terms = terms("python");
    let run = |ask| policy.session_run(&Caller::Local, &terms, ask);
    let limits = |limits| RunAsk {
        limits,
        ..ask("python")
    };
    let none = LimitsRequest::default();
    let larger = [
        LimitsRequest {
            memory_mib: Some(513),
            ..none
        },
        LimitsRequest {
            cpus: Some(0.5),
            ..none
        },
        LimitsRequest {
            pids: Some(127),
            ..none
        },
        LimitsRequest {
            workspace_mib: Some(1),
            ..none
        },
    ];
    for asked in larger {
        assert_eq!(reason(run(limits(asked))), "session_limit", "{asked:?}");
    }
    let same = LimitsRequest {
        memory_mib: Some(512),
        cpus: Some(1.0),
        pids: Some(128),
        workspace_mib: Some(256),
        output_kib: Some(7),
    };
    let plan = run(limits(same)).unwrap();
    assert_eq!(plan.action().output_kib, 7);
    let huge = LimitsRequest {
        output_kib: Some(u32::MAX),
        ..none
    };
    assert_eq!(reason(run(limits(huge))), "limit");
    for (network, expected) in [("none", "allowed"), ("packages", "session_network")] {
        let asked = RunAsk {
            network: Some(network.to_owned()),
            ..ask("python")
        };
        assert_eq!(reason(run(asked)), expected, "{network}");
    }
}

#[test]
fn what_a_program_is_given_is_checked_in_sessions_too() {
    let policy = policy();
    let terms = terms("python");
    let empty = RunAsk {
        code: String::new(),
        ..ask("python")
    };
    let loader = RunAsk {
        env: BTreeMap::from([("LD_PRELOAD".to_owned(), "x".to_owned())]),
        ..ask("python")
    };
    let nul = RunAsk {
        args: vec!["\0".to_owned()],
        ..ask("python")
    };
    let path = RunAsk {
        files: vec![crate::policy::FileAsk {
            path: "../x".to_owned(),
            source: crate::policy::FileSource::Text(String::new()),
        }],
        ..ask("python")
    };
    for (asked, expected) in [
        (empty, "code_empty"),
        (loader, "variable_of_loader"),
        (nul, "arg_nul"),
        (path, "path"),
    ] {
        assert_eq!(reason(fresh(asked.clone())), expected);
        let run = policy.session_run(&Caller::Local, &terms, asked);
        assert_eq!(reason(run), expected);
    }
}

#[test]
fn an_upload_must_fit_the_sessions_workspace() {
    let policy = policy();
    let small = SessionAsk {
        limits: LimitsRequest {
            workspace_mib: Some(1),
            ..LimitsRequest::default()
        },
        ..session("python")
    };
    let (_, terms, _) = policy.open_session(&Caller::Local, &small).unwrap();
    let ask = || UploadAsk {
        path: "x".to_owned(),
        source: crate::policy::FileSource::Text("x".repeat(2 * 1024 * 1024)),
    };
    assert_eq!(
        reason(policy.upload(&Caller::Local, None, ask())),
        "allowed"
    );
    let into = policy.upload(&Caller::Local, Some(&terms), ask());
    assert_eq!(reason(into), "workspace_too_small");
}

#[test]
fn files_of_this_machine_are_for_its_user() {
    let policy = policy();
    assert_eq!(reason(policy.local_files(&Caller::Local)), "allowed");
    let token = Caller::Token(crate::types::TokenId::of("token"));
    assert_eq!(reason(policy.local_files(&token)), "local_file_from_afar");
}

#[test]
fn an_upload_goes_beneath_the_workspace_and_to_no_programs_place() {
    let policy = policy();
    let terms = terms("python");
    for (path, kept, in_session) in [
        ("in/my däta.bin", "allowed", "allowed"),
        (".main.py", "allowed", "reserved_path"),
        (".main.sh/x", "allowed", "reserved_path"),
        (".main.rb", "allowed", "allowed"),
        (".home", "reserved_path", "reserved_path"),
        ("../x", "path", "path"),
    ] {
        let ask = || UploadAsk {
            path: path.to_owned(),
            source: crate::policy::FileSource::Text(String::new()),
        };
        let upload = |session| reason(policy.upload(&Caller::Local, session, ask()));
        assert_eq!(upload(None), kept, "{path}");
        assert_eq!(upload(Some(&terms)), in_session, "{path}");
    }
}
