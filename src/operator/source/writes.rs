//! What the operator writes to the API server: its status, its finalizer, events; never the spec.
//!
//! Each is meant for one resource, and a cache may be behind: what was made anew under the same name must not get it.
use kube::Resource as _;
use kube::ResourceExt as _;
use kube::api::{Api, ObjectMeta, Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder};

use crate::operator::metrics::Metrics;
use crate::operator::notices::Notice;
use crate::operator::reconcile::Finalizer;
use crate::resource::status::TopicStatus;
use crate::resource::topic::{API_VERSION, FINALIZER, KIND, Topic};

/// Name of the operator as field manager and as source of events.
pub const MANAGER: &str = "tidemark-operator";

/// Applies the whole status that is ours; answers the version that made, `None` if the resource is gone. A resource that was
/// made anew under the same name must not get it, and the API server minds no uid here: it is named by the version that
/// was read. One that is the same resource all the same is written to again.
pub async fn status(
    api: &Api<Topic>,
    topic: &Topic,
    status: &TopicStatus,
    metrics: &Metrics,
) -> Result<Option<String>, kube::Error> {
    let name = topic.name_any();
    let parameters = PatchParams::apply(MANAGER).force();
    let mut version = topic.metadata.resource_version.clone();
    for last in [false, false, false, false, true] {
        let body = serde_json::json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name, "resourceVersion": version},
            "status": status,
        });
        let written = api.patch_status(&name, &parameters, &Patch::Apply(&body)).await;
        metrics.request("status", written.is_ok());
        match written {
            Ok(written) => return Ok(written.metadata.resource_version),
            // The watch brings what there is to do.
            Err(kube::Error::Api(answer)) if answer.code == 404 => return Ok(None),
            Err(kube::Error::Api(answer)) if answer.code == 409 && !last => {
                match api.get_metadata_opt(&name).await? {
                    Some(found) if found.metadata.uid == topic.metadata.uid => {
                        version = found.metadata.resource_version;
                    }
                    _ => return Ok(None),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Puts our finalizer on, or takes it off, and touches no other; answers the metadata as it is then, `None` if the resource is
/// gone. The patch names the list that it was made for; if that has changed meanwhile, the list is read again.
pub async fn finalizer(
    api: &Api<Topic>,
    topic: &Topic,
    change: Finalizer,
    metrics: &Metrics,
) -> Result<Option<ObjectMeta>, kube::Error> {
    let name = topic.name_any();
    let mut current = topic.clone();
    let same = serde_json::json!({"op": "test", "path": "/metadata/uid", "value": topic.metadata.uid});
    for _ in 0..5 {
        let listed = current.metadata.finalizers.clone();
        let at = listed.iter().flatten().position(|one| one == FINALIZER);
        let leaves = current.metadata.deletion_timestamp.is_some();
        let patch = match (&listed, change, at) {
            (_, Finalizer::Add, Some(_)) | (_, Finalizer::Remove, None) => return Ok(Some(current.metadata)),
            // Nobody may add one any more.
            (_, Finalizer::Add, None) if leaves => return Ok(None),
            (Some(all), Finalizer::Add, None) => serde_json::json!([
                same,
                {"op": "test", "path": "/metadata/finalizers", "value": all},
                {"op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER},
            ]),
            (None, Finalizer::Add, None) => serde_json::json!([
                same,
                {"op": "test", "path": "/metadata/finalizers", "value": null},
                {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]},
            ]),
            (_, Finalizer::Remove, Some(at)) => {
                let path = format!("/metadata/finalizers/{at}");
                serde_json::json!([
                    same,
                    {"op": "test", "path": path, "value": FINALIZER},
                    {"op": "remove", "path": path},
                ])
            }
        };
        let Ok(patch) = serde_json::from_value(patch) else {
            return Ok(Some(current.metadata));
        };
        let patched = api
            .patch(&name, &PatchParams::default(), &Patch::Json::<()>(patch))
            .await;
        metrics.request("finalizer", patched.is_ok());
        match patched {
            Ok(patched) => return Ok(Some(patched.metadata)),
            Err(kube::Error::Api(answer)) if answer.code == 404 => return Ok(None),
            Err(kube::Error::Api(answer)) if answer.code == 409 || answer.code == 422 => {
                match api.get_opt(&name).await? {
                    Some(found) if found.metadata.uid == topic.metadata.uid => current = found,
                    _ => return Ok(None),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(kube::Error::Api(Box::new(kube::core::Status::failure(
        "finalizers keep changing",
        "Conflict",
    ))))
}

/// Publishes an event. In a namespace that is being deleted that is forbidden, and nothing depends on it.
pub async fn event(recorder: &Recorder, topic: &Topic, notice: &Notice, metrics: &Metrics) {
    let event = Event {
        type_: if notice.warning {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason: notice.reason.to_owned(),
        note: Some(notice.note.clone()),
        action: notice.action.to_owned(),
        secondary: None,
    };
    let published = recorder.publish(&event, &topic.object_ref(&())).await;
    metrics.request("event", published.is_ok());
    if let Err(error) = published {
        tracing::debug!(%error, reason = notice.reason, "event is not published");
    }
}
