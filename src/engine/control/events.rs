//! `GET /v1/events`: server-sent events, from the one after `Last-Event-ID` on, or from now on.
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{self, Stream};
use tokio::sync::broadcast;

use super::Control;
use super::problem::Failure;
use crate::resource::contract::EngineEvent;

pub(super) async fn stream(
    State(control): State<Control>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Failure> {
    let Some(engine) = control.engine() else {
        return Err(Failure::not_ready(&control.waiting()));
    };
    let after = headers
        .get("last-event-id")
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .unwrap_or_else(|| engine.events.last());
    let (past, live) = engine.events.listen_after(after);
    let state = (VecDeque::from(past), live, control.shared.stop.clone());
    let events = stream::unfold(state, |(mut past, mut live, stop)| async move {
        if let Some(event) = past.pop_front() {
            return Some((Ok(encode(&event)), (past, live, stop)));
        }
        let next = tokio::select! {
            () = stop.cancelled() => return None,
            next = live.recv() => next,
        };
        match next {
            Ok(event) => Some((Ok(encode(&event)), (past, live, stop))),
            // Whoever fell behind is told by the end of the stream: it comes again and looks at the state instead.
            Err(broadcast::error::RecvError::Lagged(_) | broadcast::error::RecvError::Closed) => None,
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(10))))
}

fn encode(event: &EngineEvent) -> Event {
    let data = serde_json::to_string(event).unwrap_or_default();
    Event::default().id(event.sequence.to_string()).data(data)
}
