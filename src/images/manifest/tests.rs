//! A good `image.toml`, and one that breaks each rule.

use proptest::prelude::*;

use super::*;

const GOOD: &str = r#"
name = "ruby"
tag = "belljar/ruby:latest"
summary = "Ruby"
[env]
A = "1"
[egress_env]
C = "3"
[[language]]
name = "ruby"
aliases = ["rb"]
program = ".main.rb"
command = ["ruby", "{program}"]
[language.warm]
cold_env = ["RUBY*", "TZ"]
[[language.warm.kind]]
env = { WAIT = "1" }
memory_mib = 40
[[language.warm.kind]]
env = { WAIT = "2" }
memory_mib = 50
words = ["rails"]
[language.packages]
kind = "python"
install = ["gem", "--source={index}"]
no_code = ["--no-code"]
[[language]]
name = "bash"
program = ".main.sh"
command = ["bash", "{program}"]
env = { B = "2" }
"#;

#[test]
fn a_good_one_is_read_whole() {
    let manifest = parse("ruby", GOOD).unwrap();
    assert_eq!(manifest.image.shm_mib, DEFAULT_SHM_MIB);
    assert_eq!(manifest.image.env["A"], "1");
    assert_eq!(manifest.image.egress_env["C"], "3");
    assert_eq!(manifest.image.languages.len(), 2);
    assert_eq!(manifest.image.language("RB").unwrap().name, "ruby");
    assert_eq!(manifest.image.language("bash").unwrap().env["B"], "2");
    assert!(manifest.image.language("python").is_none());
    let warm = manifest.image.languages[0].warm.clone().unwrap();
    let kinds: Vec<_> = warm
        .kinds
        .iter()
        .map(|kind| (kind.memory_mib, kind.env["WAIT"].as_str()))
        .collect();
    assert_eq!(kinds, [(40, "1"), (50, "2")]);
    assert_eq!(warm.kinds[1].words, ["rails"]);
    assert_eq!(warm.args, WarmArgs::Any);
    assert_eq!(warm.cold_env.len(), 2);
    assert_eq!(manifest.image.languages[1].warm, None);
    let packages = manifest.image.languages[0].packages.clone().unwrap();
    assert_eq!(packages.kind, PackageKind::Python);
    assert_eq!(packages.install, ["gem", "--source={index}"]);
    assert_eq!(packages.no_code, ["--no-code"]);
    assert_eq!(manifest.image.languages[1].packages, None);
}

/// One bad file a rule: what is replaced in the good one, and the rule's name.
#[test]
fn each_rule_has_a_file_that_breaks_it() {
    for (from, to, rule) in [
        ("summary = \"Ruby\"", "", "Syntax"),
        ("kind = \"python\"", "kind = \"ruby\"", "Syntax"),
        ("no_code", "shell = true\nno_code", "Syntax"),
        ("--source={index}", "--source=x", "Install"),
        ("\"gem\", ", "\"{index}\", ", "Install"),
        ("\"gem\", ", "\"\", ", "Install"),
        ("[\"--no-code\"]", "[\"\"]", "Install"),
        (
            "no_code",
            "env = { LD_PRELOAD = \"x\" }\nno_code",
            "Variable",
        ),
        ("summary", "privileged = true\nsummary", "Syntax"),
        ("program = \".main.rb\"", "program = 1", "Syntax"),
        ("aliases", "user = \"root\"\naliases", "Syntax"),
        ("name = \"ruby\"\ntag", "name = \"perl\"\ntag", "Name"),
        ("belljar/ruby:latest", "evil/ruby:latest", "Tag"),
        ("belljar/ruby:latest", "belljar/ruby:old", "Tag"),
        ("summary = \"Ruby\"", "summary = \"\"", "Summary"),
        ("summary = \"Ruby\"", "summary = \"a\\nb\"", "Summary"),
        ("summary", "shm_mib = 0\nsummary", "Shm"),
        ("summary", "shm_mib = 1025\nsummary", "Shm"),
        ("A = \"1\"", "\"A=\" = \"1\"", "Variable"),
        ("A = \"1\"", "LD_PRELOAD = \"/x.so\"", "Variable"),
        ("A = \"1\"", "A = \"a\\u0000b\"", "Variable"),
        ("C = \"3\"", "LD_PRELOAD = \"/x.so\"", "Variable"),
        ("{ B = \"2\" }", "{ LD_AUDIT = \"/x.so\" }", "Variable"),
        (
            "name = \"ruby\"\naliases",
            "name = \"perl\"\naliases",
            "FirstLanguage",
        ),
        ("\"rb\"", "\"R B\"", "LanguageName"),
        ("\"rb\"", "\"ruby\"", "Twice"),
        ("\"rb\"", "\"bash\"", "Twice"),
        ("WAIT", "LD_PRELOAD", "Variable"),
        ("RUBY*", "RU*BY", "Pattern"),
        ("memory_mib = 40", "memory_mib = 0", "WarmMemory"),
        ("memory_mib = 40", "memory_mib = 513", "WarmMemory"),
        ("memory_mib = 40", "", "Syntax"),
        ("memory_mib = 40", "memory_mib = 40\nhook = \"x\"", "Syntax"),
        ("words = [\"rails\"]", "", "Words"),
        ("words = [\"rails\"]", "words = [\"\"]", "Words"),
        (
            "memory_mib = 40",
            "memory_mib = 40\nwords = [\"a\"]",
            "Words",
        ),
        (
            "memory_mib = 40",
            "memory_mib = 40\n[[language.warm.kind]]\nenv = {}\nmemory_mib = 1\nwords = [\"a\"]\n\
             [[language.warm.kind]]\nenv = {}\nmemory_mib = 1\nwords = [\"a\"]\n\
             [[language.warm.kind]]\nenv = {}\nmemory_mib = 1\nwords = [\"a\"]",
            "Kinds",
        ),
        (
            "env = { B = \"2\" }",
            "[language.warm]\ncold_env = []\n[[language.warm.kind]]\nenv = {}\nmemory_mib = 1",
            "WarmSecond",
        ),
        (".main.rb", "main.rb", "Program"),
        (".main.rb", ".../x", "Program"),
        (".main.rb", "..", "Program"),
        ("[\"ruby\", \"{program}\"]", "[\"ruby\"]", "Command"),
        ("[\"ruby\", \"{program}\"]", "[]", "Command"),
        (
            "[\"ruby\", \"{program}\"]",
            "[\"{program}\", \"{program}\"]",
            "Command",
        ),
    ] {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let error = parse("ruby", &text).unwrap_err();
        assert!(format!("{error:?}").starts_with(rule), "{to}: {error:?}");
        assert!(error.to_string().contains("ruby"), "{error}");
    }
}

#[test]
fn an_image_without_a_language_is_refused() {
    let text = "name = \"ruby\"\ntag = \"belljar/ruby:latest\"\nsummary = \"R\"\nlanguage = []\n";
    assert!(matches!(
        parse("ruby", text),
        Err(ManifestError::Count { .. })
    ));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = parse("ruby", &text);
    }

    #[test]
    fn what_is_read_keeps_the_rules(program in r"[.a-z/]{0,8}", word in r"[a-z{}]{0,6}(\{program\})?", name in r"[A-Z_=0-9]{0,6}") {
        let text = GOOD
            .replacen(".main.rb", &program, 1)
            .replacen("\"ruby\", \"{program}\"", &format!("\"ruby\", \"{word}\""), 1)
            .replacen("A = ", &format!("{name:?} = "), 1);
        if let Ok(manifest) = parse("ruby", &text) {
            let own = &manifest.image.languages[0];
            prop_assert!(is_program(&own.program));
            prop_assert_eq!(own.command.concat().matches("{program}").count(), 1);
            prop_assert!(manifest.image.env.keys().all(|name| is_variable(name) && !is_loader_variable(name)));
        }
    }
}
