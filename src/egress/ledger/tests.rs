use super::*;
use crate::egress::fixtures::Notes;
use crate::policy::egress::fixtures::{endpoint, profile, rule};

fn ledger(change: impl FnOnce(&mut Profile)) -> (Ledger, Arc<Notes>) {
    let mut profile = profile(vec![rule("x.org:443")]);
    change(&mut profile);
    let notes = Arc::new(Notes::default());
    let witness: Arc<dyn Witness> = Arc::clone(&notes) as _;
    let ledger = Ledger::new(Arc::new(profile), witness, CancellationToken::new());
    (ledger, notes)
}

fn get<'a>(endpoint: &'a Endpoint, target: &'a str) -> RequestLine<'a> {
    RequestLine {
        scheme: Scheme::Https,
        endpoint,
        method: "GET",
        target,
    }
}

#[test]
fn a_request_is_recorded_with_its_whole_line_and_the_names_of_its_secrets() {
    let (ledger, notes) = ledger(|_| {});
    let at = endpoint("x.org:443");
    assert_eq!(
        ledger.request(&get(&at, "/a?b"), vec!["token".to_owned()]),
        Ok(())
    );
    let seen = notes.all();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].method.as_deref(), Some("GET"));
    assert_eq!(seen[0].scheme, Some(Scheme::Https));
    assert_eq!((seen[0].host.as_str(), seen[0].port), ("x.org", 443));
    assert_eq!(seen[0].target.as_deref(), Some("/a?b"));
    assert_eq!(seen[0].secrets, ["token"]);
    assert_eq!(seen[0].verdict, Ok(()));
}

#[test]
fn a_request_whose_head_is_refused_is_recorded_with_its_line() {
    let (ledger, notes) = ledger(|_| {});
    let at = endpoint("x.org:443");
    let denial = EgressDenial::ForbiddenMethod;
    let to = Some((Scheme::Https, &at));
    ledger.denied(Refused::Head(to, b"TRACE /a\x1b?b HTTP/1.1"), denial);
    ledger.denied(
        Refused::Head(None, b"TRACE http://x.org/a HTTP/1.1"),
        denial,
    );
    ledger.denied(Refused::Head(None, b"nothing"), denial);
    let seen: Vec<_> = notes
        .all()
        .into_iter()
        .map(|one| (one.method, one.host, one.port, one.target))
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        seen,
        [
            (text("TRACE"), "x.org".to_owned(), 443, text("/a\\x1b?b")),
            (text("TRACE"), "http://x.org/a".to_owned(), 0, None),
            (None, "nothing".to_owned(), 0, None),
        ]
    );
    assert!(notes.all().iter().all(|one| one.verdict == Err(denial)));
}

#[test]
fn an_allowed_connection_is_not_recorded_and_a_denied_one_is() {
    let (ledger, notes) = ledger(|_| {});
    assert_eq!(
        ledger.connection(&endpoint("x.org:443")),
        Ok(Route::Intercept)
    );
    assert!(notes.all().is_empty());
    let denied = EgressDenial::HostNotAllowed;
    assert_eq!(ledger.connection(&endpoint("y.org:443")), Err(denied));
    assert_eq!(notes.all()[0].verdict, Err(denied));
    assert_eq!(ledger.report().denied[0].reason, "host_not_allowed");
}

#[test]
fn a_tunnel_is_recorded_with_its_vetted_address() {
    let (ledger, notes) = ledger(|_| {});
    let address: IpAddr = "8.8.8.8".parse().unwrap();
    assert_eq!(ledger.tunnel(&endpoint("x.org:443"), address), Ok(()));
    assert_eq!(notes.all()[0].address, Some(address));
    assert_eq!(ledger.report().allowed[0].count, 1);
}

#[test]
fn what_is_not_recorded_is_not_done() {
    let (ledger, notes) = ledger(|_| {});
    notes.fail();
    let at = endpoint("x.org:443");
    let denied = Err(EgressDenial::NotRecorded);
    assert_eq!(ledger.request(&get(&at, "/"), vec![]), denied);
    assert_eq!(ledger.tunnel(&at, "8.8.8.8".parse().unwrap()), denied);
    assert!(ledger.report().allowed.is_empty());
    // What is denied anyway keeps its reason.
    assert_eq!(
        ledger.connection(&endpoint("y.org:443")),
        Err(EgressDenial::HostNotAllowed)
    );
}

#[test]
fn denied_requests_count_too_and_the_end_of_the_budget_is_recorded_once() {
    let (ledger, notes) = ledger(|profile| profile.budget.requests = 3);
    let at = endpoint("x.org:443");
    assert_eq!(ledger.request(&get(&at, "/"), vec![]), Ok(()));
    assert!(ledger.connection(&endpoint("y.org:443")).is_err());
    ledger.denied(Refused::Unparsed(b"?"), EgressDenial::Protocol);
    assert_eq!(notes.all().len(), 3);
    let used_up = EgressDenial::TooManyRequests;
    for _ in 0..5 {
        assert_eq!(ledger.request(&get(&at, "/"), vec![]), Err(used_up));
        assert_eq!(ledger.connection(&at), Err(used_up));
        assert_eq!(
            ledger.denied(Refused::Endpoint(&at), EgressDenial::NotTls),
            used_up
        );
    }
    assert_eq!(notes.all().len(), 4);
    assert_eq!(notes.all()[3].verdict, Err(used_up));
    let report = ledger.report();
    let last = report
        .denied
        .iter()
        .find(|denied| denied.reason == "too_many_requests");
    assert_eq!(last.unwrap().count, 15);
}

#[test]
fn connections_at_a_time_are_bounded_and_places_come_back() {
    let (ledger, notes) = ledger(|profile| profile.budget.connections = 2);
    let first = ledger.place().unwrap();
    let _second = ledger.place().unwrap();
    assert_eq!(
        ledger.place().unwrap_err(),
        EgressDenial::TooManyConnections
    );
    assert_eq!(notes.all().len(), 1);
    drop(first);
    assert!(ledger.place().is_ok());
}

#[test]
fn connections_on_which_nothing_is_said_use_up_the_budget_too() {
    let (ledger, notes) = ledger(|profile| profile.budget.requests = 3);
    let at = endpoint("x.org:443");
    for _ in 0..3 {
        assert_eq!(ledger.connection(&at), Ok(Route::Intercept));
    }
    for _ in 0..3 {
        assert_eq!(ledger.connection(&at), Err(EgressDenial::TooManyRequests));
    }
    assert_eq!(notes.all().len(), 1, "recorded once");
}

#[test]
fn bytes_are_bounded_each_way_and_their_end_is_recorded_once() {
    let (ledger, notes) = ledger(|profile| {
        profile.budget.sent_bytes = 10;
        profile.budget.received_bytes = 20;
    });
    let at = endpoint("x.org:443");
    assert_eq!(ledger.room_to_send(&at), Ok(10));
    ledger.sent(6);
    assert_eq!(ledger.room_to_send(&at), Ok(4));
    ledger.sent(4);
    for _ in 0..3 {
        assert_eq!(ledger.room_to_send(&at), Err(EgressDenial::TooMuchSent));
    }
    assert_eq!(ledger.received(&at, 20), Ok(()));
    for _ in 0..3 {
        assert_eq!(ledger.received(&at, 1), Err(EgressDenial::TooMuchReceived));
    }
    let reasons: Vec<_> = notes.all().iter().map(|seen| seen.verdict).collect();
    assert_eq!(
        reasons,
        [
            Err(EgressDenial::TooMuchSent),
            Err(EgressDenial::TooMuchReceived)
        ]
    );
}

#[test]
fn the_end_of_the_run_denies_everything_and_records_nothing_more() {
    let (ledger, notes) = ledger(|_| {});
    ledger.stop.cancel();
    let at = endpoint("x.org:443");
    let closed = EgressDenial::Closed;
    assert_eq!(ledger.connection(&at), Err(closed));
    assert_eq!(ledger.request(&get(&at, "/"), vec![]), Err(closed));
    assert_eq!(
        ledger.denied(Refused::Endpoint(&at), EgressDenial::NotTls),
        closed
    );
    assert_eq!(ledger.room_to_send(&at), Err(closed));
    assert_eq!(ledger.received(&at, 1), Err(closed));
    assert!(notes.all().is_empty());
}

#[test]
fn the_report_is_bounded_and_counts_what_it_leaves_out() {
    let (ledger, _) = ledger(|_| {});
    for n in 0..100 {
        let at = endpoint(&format!("h{n}.org:443"));
        assert!(ledger.connection(&at).is_err());
        assert!(ledger.connection(&at).is_err());
        assert_eq!(ledger.tunnel(&at, "8.8.8.8".parse().unwrap()), Ok(()));
    }
    let report = ledger.report();
    assert_eq!(report.denied.len(), MAX_REPORTED);
    assert_eq!(report.denied_omitted, 2 * 36);
    assert!(report.denied.iter().all(|denied| denied.count == 2));
    assert_eq!(report.allowed.len(), MAX_REPORTED);
    assert_eq!(report.allowed_omitted, 36);
}

#[test]
fn a_target_that_is_none_is_shown_escaped_and_cut() {
    let (ledger, notes) = ledger(|_| {});
    ledger.denied(
        Refused::Unparsed(b"ev\x1b[31mil\n\xff"),
        EgressDenial::Protocol,
    );
    ledger.denied(Refused::Unparsed(&[0; 1000]), EgressDenial::Protocol);
    let seen = notes.all();
    assert_eq!(seen[0].host, r"ev\x1b[31mil\n\xff");
    assert_eq!(seen[0].port, 0);
    assert_eq!(seen[1].host.len(), MAX_UNPARSED_CHARS);
}

#[tokio::test]
async fn requests_beyond_those_at_a_time_wait_for_one_to_end() {
    let (ledger, _) = ledger(|_| {});
    let mut turns = Vec::new();
    for _ in 0..places::MAX_REQUESTS_AT_ONCE {
        turns.push(ledger.places.turn().await.unwrap());
    }
    let mut next = Box::pin(ledger.places.turn());
    assert!(futures_util::poll!(&mut next).is_pending());
    turns.pop();
    assert!(futures_util::poll!(&mut next).is_ready());
}
