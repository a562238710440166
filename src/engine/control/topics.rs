//! Topics and the pass. Every handler asks the engine on a thread that may wait for the disk.
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};

use super::Control;
use super::problem::Failure;
use crate::engine::Engine;
use crate::engine::refusal::Refusal;
use crate::resource::contract::{
    DeleteTopic, DesiredTopic, ObservedTopic, PassReport, ReaderList, SegmentList, TopicList, Verdict,
};

type Answer<T> = Result<Json<T>, Failure>;

async fn ask<T: Send + 'static>(
    control: &Control,
    question: impl FnOnce(&Arc<Engine>) -> Result<T, Refusal> + Send + 'static,
) -> Answer<T> {
    let Some(engine) = control.engine() else {
        return Err(Failure::not_ready(&control.waiting()));
    };
    let answer = tokio::task::spawn_blocking(move || question(&engine))
        .await
        .map_err(|error| Failure::internal(error.to_string()))?;
    Ok(Json(answer?))
}

pub(super) async fn list(State(control): State<Control>) -> Answer<TopicList> {
    ask(&control, |engine| Ok(engine.observe_all())).await
}

pub(super) async fn show(
    State(control): State<Control>,
    topic: Result<Path<String>, PathRejection>,
) -> Answer<ObservedTopic> {
    let Path(topic) = topic?;
    ask(&control, move |engine| engine.observe(&topic)).await
}

pub(super) async fn apply(
    State(control): State<Control>,
    topic: Result<Path<String>, PathRejection>,
    desired: Result<Json<DesiredTopic>, JsonRejection>,
) -> Answer<Verdict> {
    let (Path(topic), Json(desired)) = (topic?, desired?);
    ask(&control, move |engine| engine.apply(&topic, &desired)).await
}

pub(super) async fn plan(
    State(control): State<Control>,
    topic: Result<Path<String>, PathRejection>,
    desired: Result<Json<DesiredTopic>, JsonRejection>,
) -> Answer<Verdict> {
    let (Path(topic), Json(desired)) = (topic?, desired?);
    ask(&control, move |engine| engine.plan(&topic, &desired)).await
}

pub(super) async fn delete(
    State(control): State<Control>,
    topic: Result<Path<String>, PathRejection>,
    request: Result<Query<DeleteTopic>, QueryRejection>,
) -> Answer<Verdict> {
    let (Path(topic), Query(request)) = (topic?, request?);
    ask(&control, move |engine| engine.delete(&topic, &request)).await
}

pub(super) async fn readers(
    State(control): State<Control>,
    topic: Result<Path<String>, PathRejection>,
) -> Answer<ReaderList> {
    let Path(topic) = topic?;
    ask(&control, move |engine| engine.observe_readers(&topic)).await
}

pub(super) async fn segments(
    State(control): State<Control>,
    path: Result<Path<(String, i32)>, PathRejection>,
) -> Answer<SegmentList> {
    let Path((topic, partition)) = path?;
    ask(&control, move |engine| engine.observe_segments(&topic, partition)).await
}

pub(super) async fn pass(State(control): State<Control>) -> Answer<PassReport> {
    ask(&control, |engine| Ok(engine.retention_pass())).await
}

/// The operator's word that the wall clock is right; then the pass that had waited for it.
pub(super) async fn confirm_clock(State(control): State<Control>) -> Answer<PassReport> {
    ask(&control, |engine| Ok(engine.confirm_clock())).await
}
