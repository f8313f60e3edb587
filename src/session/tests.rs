//! Sessions from opening to end. Time is passed in rather than waited for.

use std::time::Duration;

use tokio::{task::yield_now, time::Instant};

use super::*;
use crate::{
    config::{FileOrigin, Settings},
    policy::{Policy, SessionAsk, SessionTerms},
    types::{Caller, Cpus, SandboxId, TokenId},
};

const ME: Caller = Caller::Local;
const TTL: Duration = Duration::from_mins(10);
const IDLE: Duration = Duration::from_mins(1);

fn terms() -> SessionTerms {
    let text = "[sessions]\nttl_seconds = 600\nidle_seconds = 60\n";
    let settings = Settings::parse(text, FileOrigin::BuiltIn, Cpus::from_millis(1000)).unwrap();
    let ask = SessionAsk {
        language: "bash".to_owned(),
        ..SessionAsk::default()
    };
    Policy::new(&settings).open_session(&ME, &ask).unwrap().1
}

fn open(sessions: &Sessions<&'static str>) -> String {
    let place = sessions.reserve(&ME).unwrap();
    let opened = sessions
        .insert(place, SandboxId::random(), terms(), "sandbox")
        .unwrap();
    opened.id.to_string()
}

fn reason<T>(result: Result<T, SessionError>) -> &'static str {
    result.err().map_or("fine", |error| error.reason())
}

/// Lets spawned tasks run until they wait.
async fn settle() {
    for _ in 0..10 {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_session_serves_its_caller_until_closed() {
    let sessions = Sessions::new(4);
    let id = open(&sessions);
    let lease = sessions.lease(&ME, &id).await.unwrap();
    assert_eq!((*lease, lease.id().as_str()), ("sandbox", id.as_str()));
    assert_eq!(lease.terms(), &terms());
    drop(lease);
    let ended = sessions.close(&ME, &id).await.unwrap().unwrap();
    assert_eq!((ended.sandbox, ended.why), ("sandbox", Gone::Closed));
    assert_eq!(ended.id.as_str(), id);
    assert_eq!(reason(sessions.lease(&ME, &id).await), "session_closed");
    assert_eq!(reason(sessions.close(&ME, &id).await), "session_closed");
    assert_eq!(reason(sessions.terms(&ME, &id)), "session_closed");
    assert_eq!(sessions.count(), 0);
}

#[tokio::test]
async fn what_is_no_session_is_unknown() {
    let sessions: Sessions<&'static str> = Sessions::new(4);
    open(&sessions);
    for id in [
        SandboxId::random().as_str(),
        "",
        "../..",
        "00000000-0000-4000-8000-000000000000",
    ] {
        let error = sessions.lease(&ME, id).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown session: open one with open_session"
        );
        assert_eq!(reason(sessions.close(&ME, id).await), "unknown_session");
    }
}

#[tokio::test]
async fn calls_take_turns_in_order_and_no_more_than_a_few_wait() {
    let sessions = Sessions::new(4);
    let id = open(&sessions);
    let first = sessions.lease(&ME, &id).await.unwrap();
    let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
    for at in 0..error::MAX_WAITING {
        let (sessions, id, done) = (sessions.clone(), id.clone(), done.clone());
        tokio::spawn(async move {
            let lease = sessions.lease(&ME, &id).await;
            done.send((at, lease.is_ok())).unwrap();
        });
        settle().await;
    }
    assert_eq!(reason(sessions.lease(&ME, &id).await), "session_busy");
    assert!(order.try_recv().is_err(), "the first still has the turn");
    drop(first);
    for at in 0..error::MAX_WAITING {
        assert_eq!(order.recv().await, Some((at, true)));
    }
    assert_eq!(reason(sessions.lease(&ME, &id).await), "fine");
}

#[tokio::test]
async fn a_waiting_call_that_is_dropped_leaves_its_place() {
    let sessions = Sessions::new(4);
    let id = open(&sessions);
    let lease = sessions.lease(&ME, &id).await.unwrap();
    for _ in 0..3 * error::MAX_WAITING {
        let waiting = sessions.lease(&ME, &id);
        assert!(futures_util::poll!(std::pin::pin!(waiting)).is_pending());
    }
    drop(lease);
    assert_eq!(reason(sessions.lease(&ME, &id).await), "fine");
}

#[tokio::test]
async fn closing_stops_the_running_call_and_those_that_wait() {
    let sessions = Sessions::new(4);
    let id = open(&sessions);
    let lease = sessions.lease(&ME, &id).await.unwrap();
    let running = tokio::spawn(async move { lease.ending().await });
    let waiting = tokio::spawn({
        let (sessions, id) = (sessions.clone(), id.clone());
        async move { reason(sessions.lease(&ME, &id).await) }
    });
    settle().await;
    let ended = sessions.close(&ME, &id).await.unwrap();
    assert!(ended.is_some(), "handed out once the running call is over");
    running.await.unwrap();
    assert_eq!(waiting.await.unwrap(), "session_closed");
}

#[tokio::test]
async fn a_close_that_is_dropped_leaves_the_sandbox_to_the_sweep() {
    let sessions = Sessions::new(4);
    let id = open(&sessions);
    let lease = sessions.lease(&ME, &id).await.unwrap();
    {
        let closing = sessions.close(&ME, &id);
        assert!(futures_util::poll!(std::pin::pin!(closing)).is_pending());
    }
    assert_eq!(reason(sessions.lease(&ME, &id).await), "session_closed");
    assert!(sessions.sweep(Instant::now()).is_empty(), "still in use");
    drop(lease);
    let ended = sessions.sweep(Instant::now());
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].why, Gone::Closed);
    assert!(sessions.sweep(Instant::now()).is_empty(), "handed out once");
}

#[tokio::test]
async fn an_idle_session_ends_but_not_one_in_use() {
    let sessions = Sessions::new(4);
    let (idle, used) = (open(&sessions), open(&sessions));
    let before = Instant::now();
    let lease = sessions.lease(&ME, &used).await.unwrap();
    assert!(sessions.sweep(before + IDLE / 2).is_empty());
    let ended = sessions.sweep(Instant::now() + IDLE);
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].id.as_str(), idle);
    assert_eq!(ended[0].why, Gone::Idle { seconds: 60 });
    let error = sessions.lease(&ME, &idle).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "this session is gone, and its files with it: it lay idle for 60 s. Open another with open_session"
    );
    // The idle time starts anew when the call is over.
    drop(lease);
    assert!(sessions.sweep(before + IDLE).is_empty());
    let ended = sessions.sweep(Instant::now() + IDLE);
    assert_eq!(ended[0].id.as_str(), used);
}

#[tokio::test]
async fn a_lease_that_is_over_ends_the_session_under_its_call() {
    let sessions = Sessions::new(4);
    let id = open(&sessions);
    let lease = sessions.lease(&ME, &id).await.unwrap();
    assert!(sessions.sweep(Instant::now() + TTL).is_empty());
    lease.ending().await;
    drop(lease);
    let ended = sessions.sweep(Instant::now());
    assert_eq!(ended[0].why, Gone::LeaseOver { seconds: 600 });
    assert_eq!(reason(sessions.lease(&ME, &id).await), "session_lease_over");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_over_whether_the_sweep_has_come_or_not() {
    let sessions = Sessions::new(4);
    let id = open(&sessions);
    tokio::time::advance(TTL).await;
    assert_eq!(reason(sessions.terms(&ME, &id)), "session_lease_over");
    assert_eq!(reason(sessions.lease(&ME, &id).await), "session_lease_over");
    let idle = open(&sessions);
    tokio::time::advance(IDLE).await;
    assert_eq!(reason(sessions.lease(&ME, &idle).await), "session_idle");
    assert_eq!(
        sessions.sweep(Instant::now()).len(),
        2,
        "both are handed out"
    );
}

#[tokio::test]
async fn a_lost_sandbox_ends_its_session() {
    let sessions = Sessions::new(4);
    let id = open(&sessions);
    let lease = sessions.lease(&ME, &id).await.unwrap();
    let ended = lease.lost().unwrap();
    assert_eq!((ended.sandbox, ended.why), ("sandbox", Gone::Lost));
    assert_eq!(reason(sessions.lease(&ME, &id).await), "session_lost");
    assert!(sessions.sweep(Instant::now()).is_empty());
}

#[tokio::test]
async fn a_caller_has_so_many_and_hears_which_to_close() {
    let sessions = Sessions::new(2);
    let first = open(&sessions);
    let place = sessions.reserve(&ME).unwrap();
    let error = sessions.reserve(&ME).unwrap_err();
    assert_eq!(error.reason(), "too_many_sessions");
    assert!(error.to_string().contains(&first), "{error}");
    // A start that failed gives its place back.
    drop(place);
    open(&sessions);
    // An ended session counts until its sandbox is destroyed.
    let ended = sessions.close(&ME, &first).await.unwrap().unwrap();
    assert_eq!(reason(sessions.reserve(&ME)), "too_many_sessions");
    drop(ended);
    assert_eq!(reason(sessions.reserve(&ME)), "fine");
}

#[tokio::test]
async fn draining_hands_out_everything_and_opens_nothing() {
    let sessions = Sessions::new(4);
    let (free, stuck) = (open(&sessions), open(&sessions));
    let late = sessions.reserve(&ME).unwrap();
    let lease = sessions.lease(&ME, &stuck).await.unwrap();
    let ended = sessions.drain(Duration::ZERO).await;
    assert_eq!(ended.len(), 2, "also the one whose call does not stop");
    assert!(ended.iter().all(|ended| ended.why == Gone::Stopping));
    lease.ending().await;
    assert_eq!(reason(sessions.lease(&ME, &free).await), "stopping");
    assert_eq!(reason(sessions.reserve(&ME)), "stopping");
    let refused = sessions.insert(late, SandboxId::random(), terms(), "late");
    assert_eq!(refused, Err("late"));
    assert!(sessions.drain(Duration::ZERO).await.is_empty());
}

#[tokio::test]
async fn the_sweep_wakes_for_what_ended() {
    let sessions = Sessions::new(4);
    let (send, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let sweeping = tokio::spawn({
        let sessions = sessions.clone();
        async move {
            sessions
                .keep_swept(|gone| send.send(gone.why).unwrap())
                .await;
        }
    });
    settle().await;
    let id = open(&sessions);
    let lease = sessions.lease(&ME, &id).await.unwrap();
    {
        let closing = sessions.close(&ME, &id);
        assert!(futures_util::poll!(std::pin::pin!(closing)).is_pending());
    }
    drop(lease);
    assert_eq!(ended.recv().await, Some(Gone::Closed));
    sweeping.abort();
}

#[tokio::test]
async fn another_callers_session_is_exactly_unknown() {
    let sessions = Sessions::new(1);
    let other = Caller::Token(TokenId::of("token"));
    let (live, closed) = (open(&sessions), SandboxId::random().to_string());
    let none = sessions.lease(&other, &closed).await.unwrap_err();
    assert_eq!(none.reason(), "unknown_session");
    let check = async |id: &str| {
        assert_eq!(sessions.terms(&other, id).unwrap_err(), none);
        assert_eq!(sessions.lease(&other, id).await.unwrap_err(), none);
        assert_eq!(sessions.close(&other, id).await.unwrap_err(), none);
    };
    check(&live).await;
    // Also while it is in use, and once it is gone.
    let lease = sessions.lease(&ME, &live).await.unwrap();
    check(&live).await;
    drop(lease);
    assert_eq!(sessions.count(), 1, "nothing was closed");
    drop(sessions.close(&ME, &live).await.unwrap());
    check(&live).await;
    assert_eq!(reason(sessions.lease(&ME, &live).await), "session_closed");
    // Nor does one caller's number count against another's, or its ids show in the refusal.
    let mine = open(&sessions);
    let place = sessions.reserve(&other).unwrap();
    let refused = sessions.reserve(&other).unwrap_err();
    assert_eq!(refused.reason(), "too_many_sessions");
    assert!(!refused.to_string().contains(&mine), "{refused}");
    drop(place);
}
