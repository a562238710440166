//! The columns of `kubectl get topics`, for whoever shows Topics without a cluster.
//!
//! The definition of the resource is the one place that names them: what is printed elsewhere is read from there.
use kube::CustomResourceExt as _;
use serde_json::Value;

use super::topic::Topic;

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name; `kubectl` shows it in capitals.
    pub name: String,
    /// Whether `kubectl` shows it only with `-o wide`.
    pub wide: bool,
    path: String,
}

/// Every column after the name, in order, but for ages: those are `kubectl`'s own reckoning from the time of creation,
/// which a manifest in a directory does not have.
pub fn printed() -> Vec<Column> {
    let versions = Topic::crd().spec.versions.into_iter();
    versions
        .flat_map(|version| version.additional_printer_columns.unwrap_or_default())
        .filter(|column| column.type_ != "date")
        .map(|column| Column {
            name: column.name,
            wide: column.priority.is_some_and(|priority| priority > 0),
            path: column.json_path,
        })
        .collect()
}

impl Column {
    /// What stands in it for a Topic; empty where there is nothing to tell.
    pub fn cell(&self, topic: &Value) -> String {
        match find(topic, &self.path) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }
}

/// The value at a path of the two forms that the definition uses: `.field`, and `.list[?(@.field=="value")]`.
fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let Some(path) = path.strip_prefix('.') else {
        return path.is_empty().then_some(value);
    };
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (field, rest) = path.split_at_checked(end)?;
    let value = value.get(field)?;
    let Some(filter) = rest.strip_prefix("[?(@.") else {
        return find(value, rest);
    };
    let (condition, rest) = filter.split_once(")]")?;
    let (field, wanted) = condition.split_once("==")?;
    let wanted = wanted.trim_matches('"');
    let fits = |item: &&Value| item.get(field).and_then(Value::as_str) == Some(wanted);
    find(value.as_array()?.iter().find(fits)?, rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_column_has_a_cell() {
        let topic = json!({"metadata": {"name": "orders"}, "status": {
            "partitions": 12, "retention": "7d", "retentionSize": "2Gi", "segment": "1h", "topicName": "Orders.v1",
            "readers": {"checked": 1, "slowest": "billing"},
            "conditions": [{"type": "Paused", "status": "True", "reason": "Paused"},
                {"type": "Ready", "status": "False", "reason": "SlowReader", "message": "billing would lose 7 records"}],
        }});
        let shown: Vec<(String, bool, String)> = printed()
            .into_iter()
            .map(|column| (column.name.clone(), column.wide, column.cell(&topic)))
            .collect();
        let wanted = [
            ("Partitions", false, "12"),
            ("Retention", false, "7d"),
            ("Size", false, "2Gi"),
            ("Ready", false, "False"),
            ("Reason", false, "SlowReader"),
            ("Slowest reader", false, "billing"),
            ("Topic", true, "Orders.v1"),
            ("Rolls after", true, "1h"),
            ("Message", true, "billing would lose 7 records"),
        ];
        let wanted = wanted.map(|(name, wide, cell)| (name.to_owned(), wide, cell.to_owned()));
        assert_eq!(shown, wanted);
    }

    #[test]
    fn a_topic_without_a_status_has_empty_cells() {
        for column in printed() {
            assert_eq!(
                column.cell(&json!({"metadata": {"name": "orders"}})),
                "",
                "{}",
                column.name
            );
        }
    }
}
