//! The model service's client (D1) when something fails: what is tried again, what is not, and what nobody may see.

use crate::provider::{KEY, answer, asked, hello, settings};
use crate::support::service::{Part, Reply, Service};
use crate::support::{World, tools, until};
use serde_json::json;
use std::time::Duration;
use throng::config::model::{Auth, Secret, ServiceSettings};
use throng::provider::{self, Deltas, Error, ModelEvent};

fn good() -> Reply {
    Reply::blocks(vec![json!({"type": "text", "text": "whole"})])
}

/// The waits that were told, and how it ended.
fn waits(events: &[Result<ModelEvent, Error>]) -> (Vec<(Duration, String)>, bool) {
    let told = events.iter().filter_map(|event| match event {
        Ok(ModelEvent::AskingAgain { wait, why, .. }) => Some((*wait, why.clone())),
        _ => None,
    });
    (told.collect(), matches!(events.last(), Some(Ok(ModelEvent::Done(_)))))
}

#[test]
fn failures_that_may_pass_are_tried_again_and_each_wait_is_told() {
    let middle = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"a\",\"model\":\"m\"}}\n\n\
        event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"too much\"}}\n\n";
    for (reply, words) in [
        (Reply::error("500 Internal Server Error", "api_error", "oh"), "500 api_error"),
        (Reply::error("529 Overloaded", "overloaded_error", "busy"), "529 overloaded_error"),
        (Reply::error("409 Conflict", "api_error", "twice"), "409"),
        (Reply::new("502 Bad Gateway", "text/html", "<html><h1>Bad \x1b[31mGateway</h1></html>"), "502"),
        (Reply::stream(middle), "overloaded_error"),
    ] {
        let service = Service::start(vec![reply, good()]);
        let (waits, is_done) = waits(&asked(settings(&service), &hello(), Deltas::Wanted));
        assert!(is_done && waits.len() == 1, "{words}: {waits:?}");
        assert!(waits[0].1.contains(words) && !waits[0].1.contains('\x1b'), "{waits:?}");
    }
}

#[test]
fn the_wait_that_the_service_asks_for_is_kept_and_bounded() {
    let limited = || Reply::error("429 Too Many Requests", "rate_limit_error", "slow down");
    let past = "Sun, 06 Nov 1994 08:49:37 GMT";
    let service = Service::start(vec![
        limited().header("retry-after", "1"),
        limited().header("retry-after", past),
        good(),
    ]);
    let (told, is_done) = waits(&asked(settings(&service), &hello(), Deltas::Unwanted));
    let lengths: Vec<_> = told.iter().map(|(wait, _)| *wait).collect();
    assert!(is_done, "{told:?}");
    assert_eq!(lengths, [Duration::from_secs(1), Duration::ZERO]);

    // A wait of a year is not kept: the first event tells the bounded one, and dropping ends it.
    let service = Service::start(vec![limited().header("retry-after", "31536000")]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime.block_on(async {
        provider::Service::new(settings(&service)).start(&hello(), Deltas::Unwanted).next().await
    });
    let Some(Ok(ModelEvent::AskingAgain { wait, .. })) = first else { panic!("{first:?}") };
    assert!(wait <= Duration::from_secs(600), "{wait:?}");
}

#[test]
fn tries_are_bounded_and_counted() {
    let busy = || Reply::error("529 Overloaded", "overloaded_error", "busy").header("retry-after", "0");
    let service = Service::start(vec![busy(), busy(), busy(), busy()]);
    let error = answer(&service, &hello()).unwrap_err();
    assert!(matches!(error, Error::Failed { status: 529, tries: 3, .. }), "{error:?}");
    assert_eq!(service.heard().len(), 3);
}

#[test]
fn refusals_are_not_tried_again() {
    for (status, kind) in [
        ("400 Bad Request", "invalid_request_error"),
        ("401 Unauthorized", "authentication_error"),
        ("403 Forbidden", "permission_error"),
        ("404 Not Found", "not_found_error"),
    ] {
        let service = Service::start(vec![Reply::error(status, kind, "no"), good()]);
        let error = answer(&service, &hello()).unwrap_err();
        assert!(matches!(&error, Error::Refused { kind: k, .. } if k == kind), "{error:?}");
        assert_eq!(service.heard().len(), 1);
    }
}

#[test]
fn case_c085_too_long_is_told_as_such() {
    for message in [
        "prompt is too long: 240000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 16000 > 200000",
    ] {
        let service = Service::start(vec![Reply::error("400 Bad Request", "invalid_request_error", message)]);
        assert!(matches!(answer(&service, &hello()), Err(Error::TooLong { .. })), "{message}");
    }
    let service = Service::start(vec![Reply::error("413 Payload Too Large", "request_too_large", "32 MB")]);
    assert!(matches!(answer(&service, &hello()), Err(Error::TooLong { .. })));
}

#[test]
fn an_address_where_nobody_answers_is_named_without_its_password() {
    let service = Service::start(Vec::new());
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let base_url = format!("http://me:{KEY}@127.0.0.1:{port}");
    let lost = ServiceSettings { base_url, tries_max: 2, auth: Auth::None, ..settings(&service) };
    let events = asked(lost, &hello(), Deltas::Unwanted);
    let Some(Err(error @ Error::Unreachable { tries: 2, .. })) = events.last() else { panic!("{events:?}") };
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(!format!("{events:?}").contains(KEY), "{events:?}");
}

#[test]
fn a_page_instead_of_a_stream_is_told_as_such_and_not_asked_for_again() {
    let page = Reply::new("200 OK", "text/html; charset=utf-8", "<html>Please log in</html>");
    let service = Service::start(vec![page, good()]);
    let error = answer(&service, &hello()).unwrap_err();
    assert!(matches!(&error, Error::Malformed { problem } if problem.contains("log in")), "{error}");
    assert_eq!(service.heard().len(), 1);
}

#[test]
fn the_key_goes_to_no_other_host() {
    let other = Service::start(vec![good()]);
    let there = Reply::new("307 Temporary Redirect", "text/plain", "")
        .header("location", &format!("{}/v1/messages", other.url()));
    let service = Service::start(vec![there]);
    let error = answer(&service, &hello()).unwrap_err();
    assert!(matches!(error, Error::Refused { status: 307, .. }), "{error}");
    assert!(other.heard().is_empty());
}

#[test]
fn an_endless_error_is_read_only_in_part() {
    let mut parts = vec![Part::Chunk(vec![b'y'; 64 * 1024]); 4];
    parts.push(Part::Silence);
    let endless = Service::start(vec![Reply::parts(parts).status("400 Bad Request")]);
    let error = answer(&endless, &hello()).unwrap_err();
    assert!(matches!(error, Error::Refused { status: 400, .. }), "{error}");
    assert!(error.to_string().len() < 5000, "{error}");
}

#[test]
fn probe_k06_the_key_is_nowhere_to_be_seen() {
    let echo = |status: &str| Reply::error(status, "authentication_error", &format!("bad key {KEY}!"));
    let html = Reply::new("503 Service Unavailable", "text/html", format!("<p>x-api-key: {KEY}</p>"));
    let service = Service::start(vec![html.header("retry-after", "0"), echo("401 Unauthorized")]);
    let events = asked(settings(&service), &hello(), Deltas::Wanted);
    assert_eq!(service.heard()[0].header("x-api-key"), Some(KEY));
    assert_eq!(service.heard().len(), 2);
    let shown =
        format!("{events:?} {:?} {:?}", settings(&service), provider::Service::new(settings(&service)));
    assert!(!shown.contains(KEY), "{shown}");
    let middle =
        format!("data: {{\"type\":\"error\",\"error\":{{\"type\":\"x\",\"message\":\"{KEY}\"}}}}\n\n");
    let service = Service::start(vec![Reply::stream(middle)]);
    let events = asked(settings(&service), &hello(), Deltas::Wanted);
    assert!(!format!("{events:?}").contains(KEY), "{events:?}");
}

#[test]
fn a_key_command_is_asked_once_and_again_when_its_key_is_refused() {
    let world = World::new();
    let count = world.path("count");
    let command = format!("echo x >>'{0}'; echo key-$(wc -l <'{0}')", count.display());
    let no = || Reply::error("401 Unauthorized", "authentication_error", "expired");
    let service = Service::start(vec![good(), no(), good(), no(), no()]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let settings = ServiceSettings { auth: Auth::Command(command), ..settings(&service) };
    let client = provider::Service::new(settings);
    let ask = || {
        runtime.block_on(async {
            let mut answering = client.start(&hello(), Deltas::Unwanted);
            answering.next().await.unwrap()
        })
    };
    assert!(ask().is_ok() && ask().is_ok());
    assert!(matches!(ask(), Err(Error::Refused { status: 401, .. })));
    let keys: Vec<_> = service.heard().iter().map(|h| h.header("x-api-key").unwrap().to_owned()).collect();
    assert_eq!(keys, ["key-1", "key-1", "key-2", "key-2", "key-3"]);
}

#[test]
fn headers_are_as_the_settings_say_and_no_compression_is_asked_for() {
    let service = Service::start(vec![good()]);
    let settings = ServiceSettings {
        auth: Auth::Token(Secret::new("tok")),
        headers: vec![("X-Team".to_owned(), Secret::new("red"))],
        betas: vec!["one-1".to_owned(), "two-2".to_owned()],
        ..settings(&service)
    };
    asked(settings, &hello(), Deltas::Unwanted);
    let heard = &service.heard()[0];
    assert!(heard.first.starts_with("POST /v1/messages HTTP/1.1"), "{}", heard.first);
    assert_eq!(heard.header("authorization"), Some("Bearer tok"));
    assert_eq!(heard.header("x-api-key"), None);
    assert_eq!(heard.header("x-team"), Some("red"));
    assert_eq!(heard.header("anthropic-beta"), Some("one-1,two-2"));
    assert_eq!(heard.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(heard.header("accept-encoding"), None);
    assert_eq!(heard.body["stream"], true);
}

#[test]
fn an_answer_that_nobody_waits_for_ends_at_once() {
    let service =
        Service::start(vec![Reply::parts(vec![Part::Chunk(b": hello\n\n".to_vec()), Part::Silence])]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let answering = provider::Service::new(settings(&service)).start(&hello(), Deltas::Wanted);
        tools::until("it is asked", || !service.heard().is_empty()).await;
        drop(answering);
        tokio::task::yield_now().await;
    });
    until("the connection is closed", || service.gone() == 1);
}
