use super::script::{Lie, Step, parse};

#[test]
fn every_command_of_the_language_parses() {
    let text = "# a comment\n\nout hello  world\nerr \nraw 1b5b\nflood 10\ncat\nenv PATH\nargs\n\
                file a/b some text\ntouch a/b\nfill\nshow a/b\n\
                dial a\\r\\n\\x00\\\\b\nknock\ntrust\nsleep 5\nhang\nexit 3\nsignal 11\noom\nlie late";
    let steps = parse(text).unwrap();
    assert_eq!(steps.len(), 20);
    assert_eq!(steps[0], Step::Out(b"hello  world\n".to_vec()));
    assert_eq!(steps[2], Step::Out(vec![0x1b, 0x5b]));
    assert_eq!(steps[7], Step::File(b"a/b".to_vec(), b"some text".to_vec()));
    assert_eq!(steps[11], Step::Dial(b"a\r\n\0\\b".to_vec()));
    assert_eq!(steps[19], Step::Lie(Lie::Late));
}

#[test]
fn what_is_no_command_is_named() {
    assert_eq!(parse("out a\nprint(1)"), Err("print(1)".to_owned()));
    assert_eq!(parse("dial \\q"), Err("dial \\q".to_owned()));
    assert_eq!(parse("raw 1"), Err("raw 1".to_owned()));
    assert_eq!(parse("lie politely"), Err("lie politely".to_owned()));
}
