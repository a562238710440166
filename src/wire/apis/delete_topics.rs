//! DeleteTopics (20), by name or, from version 6, by id.
use std::sync::Arc;

use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};

use crate::wire::apis::{text, topic_name};
use crate::wire::broker::{Broker, Refusal};
use crate::wire::error_code::ErrorCode;
use crate::wire::registry::{Api, Call};
use crate::wire::schema::{Schema, requests};

/// The first version whose topics are structures.
const WITH_IDS: i16 = 6;

/// The API.
#[derive(Debug)]
pub struct DeleteTopics;

impl<S: Broker> Api<S> for DeleteTopics {
    type Request = DeleteTopicsRequest;
    const NAME: &'static str = "DeleteTopics";
    const MIN: i16 = 1;
    const MAX: i16 = 6;
    const SCHEMA: Schema = requests::DELETE_TOPICS;

    async fn handle(broker: Arc<S>, call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
        let asked = if call.version >= WITH_IDS {
            request.topics
        } else {
            let by_name = request.topic_names.into_iter();
            by_name
                .map(|name| DeleteTopicState::default().with_name(Some(name)))
                .collect()
        };
        let mut results = Vec::with_capacity(asked.len());
        for topic in asked {
            results.push(delete(&*broker, topic).await);
        }
        DeleteTopicsResponse::default().with_responses(results)
    }
}

async fn delete<S: Broker>(broker: &S, asked: DeleteTopicState) -> DeletableTopicResult {
    let result = DeletableTopicResult::default()
        .with_name(asked.name.clone())
        .with_topic_id(asked.topic_id);
    let known = match (&asked.name, asked.topic_id.is_nil()) {
        (Some(_), false) => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            "A topic is named by its name or by its id, not by both.",
        )),
        (None, true) => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            "Neither topic name nor id were specified.",
        )),
        (Some(name), true) => broker.topic(name).ok_or_else(|| Refusal::unknown_topic(name)),
        (None, false) => broker.topic_by_id(asked.topic_id).ok_or_else(|| {
            Refusal::new(
                ErrorCode::UnknownTopicId,
                format!("No topic has the id {}.", asked.topic_id),
            )
        }),
    };
    let outcome = match known {
        Ok(topic) => broker.delete_topic(&topic.name).await.map(|()| topic),
        Err(refusal) => Err(refusal),
    };
    match outcome {
        Ok(topic) => result
            .with_name(Some(topic_name(&topic.name)))
            .with_topic_id(topic.id)
            .with_error_message(None),
        Err(refusal) => result
            .with_error_code(refusal.code.code())
            .with_error_message(Some(text(refusal.message))),
    }
}
