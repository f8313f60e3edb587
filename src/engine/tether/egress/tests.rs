use std::io::ErrorKind;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::message::GuestError;
use super::super::tests::{Said, run, tether};
use super::*;

/// Answers one connection, once `question` has come, and ends it.
async fn answer(door: &mut Door, question: &[u8], answer: &[u8]) {
    let mut connection = door.next().await.unwrap();
    let mut heard = vec![0; question.len()];
    connection.read_exact(&mut heard).await.unwrap();
    assert_eq!(heard, question);
    connection.write_all(answer).await.unwrap();
    connection.shutdown().await.unwrap();
}

fn texts(said: &Said) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&said.stdout), text(&said.stderr))
}

#[tokio::test]
async fn a_program_reaches_the_door_and_hears_its_answer() {
    let (tether, _) = tether().await;
    let mut door = tether.open_egress(b"certificate".to_vec()).await.unwrap();
    assert_eq!(door.proxy(), "127.0.0.1:3128");
    assert_eq!(door.trust_file(), "/tmp/.belljar/ca.pem");
    let large = vec![b'a'; 3_000_000];
    let program = run(&tether, "trust\ndial one\ndial two");
    let answers = async {
        answer(&mut door, b"one", b" first ").await;
        answer(&mut door, b"two", &large).await;
    };
    let (said, ()) = tokio::join!(program, answers);
    let (out, err) = texts(&said.unwrap());
    assert!(out.starts_with("certificate first aaa"), "{err}");
    assert_eq!(out.len(), "certificate first ".len() + large.len());
}

#[tokio::test]
async fn a_connection_that_is_dropped_is_reset_at_both_ends() {
    let (tether, _) = tether().await;
    let mut door = tether.open_egress(Vec::new()).await.unwrap();
    let program = run(&tether, "dial one\ndial two");
    let (said, kept) = tokio::join!(program, async {
        drop(door.next().await.unwrap());
        let kept = door.next().await.unwrap();
        drop(door);
        kept
    });
    let (out, err) = texts(&said.unwrap());
    assert_eq!(
        (out.as_str(), err.as_str()),
        ("", "connection reset\nconnection reset\n")
    );
    let mut kept = kept;
    let mut heard = [0; 3];
    kept.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"two");
    let error = kept.read(&mut heard).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(!tether.is_lost());
}

#[tokio::test]
async fn without_a_door_a_connection_of_the_guests_ends_the_sandbox() {
    let (tether, _) = tether().await;
    assert!(matches!(
        run(&tether, "knock").await,
        Err(TetherError::Lost)
    ));
    tether.lost().await;
}

#[tokio::test]
async fn a_connection_that_comes_after_the_door_was_shut_is_cut_without_harm() {
    let (tether, _) = tether().await;
    drop(tether.open_egress(Vec::new()).await.unwrap());
    let said = run(&tether, "knock\nknock").await.unwrap();
    assert_eq!(said.stdout, b"cut\ncut\n");
    assert!(!tether.is_lost());
}

#[tokio::test]
async fn a_flood_of_connections_that_are_not_taken_as_fast_ends_the_sandbox() {
    let (tether, _) = tether().await;
    let mut door = tether.open_egress(Vec::new()).await.unwrap();
    assert!(matches!(
        run(&tether, "lie streams").await,
        Err(TetherError::Lost)
    ));
    tether.lost().await;
    assert!(door.next().await.is_none());
}

#[tokio::test]
async fn a_flood_of_connections_after_the_door_was_shut_ends_the_sandbox() {
    let (tether, _) = tether().await;
    drop(tether.open_egress(Vec::new()).await.unwrap());
    assert!(matches!(
        run(&tether, "lie streams").await,
        Err(TetherError::Lost)
    ));
    tether.lost().await;
}

#[tokio::test]
async fn there_is_one_door_at_a_time_and_another_after_it() {
    let (tether, _) = tether().await;
    let door = tether.open_egress(Vec::new()).await.unwrap();
    let second = tether.open_egress(Vec::new()).await;
    assert!(matches!(second, Err(TetherError::TooManyRequests)));
    drop(door);
    let mut door = tether.open_egress(Vec::new()).await.unwrap();
    let (said, ()) = tokio::join!(run(&tether, "dial x"), answer(&mut door, b"x", b"y"));
    assert_eq!(said.unwrap().stdout, b"y");
}

/// A door goes piece by piece, on one thread, while its keeper looks on from another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_door_that_is_shut_is_no_breach_of_the_guests() {
    let (tether, _) = tether().await;
    for _ in 0..500 {
        drop(tether.open_egress(Vec::new()).await.unwrap());
    }
    assert_eq!(run(&tether, "out x").await.unwrap().stdout, b"x\n");
}

#[tokio::test]
async fn a_guest_that_cannot_open_the_way_out_says_so_and_lives() {
    let (tether, _) = tether().await;
    let failed = tether.open_egress(b"fail".to_vec()).await;
    assert!(matches!(
        failed,
        Err(TetherError::Guest(GuestError::NoSpace))
    ));
    assert!(tether.open_egress(Vec::new()).await.is_ok());
}

#[tokio::test]
async fn a_guest_that_lies_about_the_way_out_is_given_up() {
    let (bytes, _) = tether().await;
    let error = bytes.open_egress(b"lie/bytes".to_vec()).await.unwrap_err();
    assert!(matches!(error, TetherError::Violation(Violation::Frame)));
    bytes.lost().await;
    for lie in ["lie/twice", "lie/end"] {
        let (tether, _) = tether().await;
        let mut door = tether.open_egress(lie.into()).await.unwrap();
        assert!(door.next().await.is_none(), "{lie}");
        tether.lost().await;
    }
}
