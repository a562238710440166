//! The CustomResourceDefinition as it is shipped in `crds/`.
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt as _;

use super::topic::Topic;

/// Name of the definition.
pub const NAME: &str = "topics.tidemark.dev";

/// The definition.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = Topic::crd();
    definition.metadata.labels = Some(
        [
            ("app.kubernetes.io/name", "tidemark"),
            ("app.kubernetes.io/part-of", "tidemark"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
    );
    for version in &mut definition.spec.versions {
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut())
        {
            refuse_null_settings(schema);
        }
    }
    definition
}

/// A derive makes every integer-or-string nullable; a setting without a value is a mistake, not a default.
fn refuse_null_settings(schema: &mut JSONSchemaProps) {
    if schema.x_kubernetes_int_or_string == Some(true) {
        schema.nullable = None;
    }
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
    {
        refuse_null_settings(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        refuse_null_settings(items);
    }
}

/// The definition as YAML, as `tidemark crd` prints it and `crds/topics.tidemark.dev.yaml` holds it.
///
/// # Errors
/// Never in practice; the serializer's error is passed on.
pub fn yaml() -> Result<String, serde_yaml::Error> {
    serde_yaml::to_string(&definition())
}

#[cfg(test)]
#[path = "crd_tests.rs"]
mod tests;
