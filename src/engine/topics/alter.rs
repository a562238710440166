//! What a change asked for over the wire makes of a topic's overrides. Pure; the result passes the guard like any other.
use crate::engine::refusal::Refusal;
use crate::resource::keys::{self, Kind};
use crate::resource::settings::{self, Overrides};
use crate::wire::broker::{ConfigChange, ConfigOperation};

/// The whole resulting set of overrides, in canonical form. As in Kafka the whole set is checked, so that an older override
/// which has become invalid has to be mended first.
///
/// # Errors
/// Unknown keys, values out of range, null values, list operations on what is no list.
pub fn apply(current: &Overrides, change: &ConfigChange) -> Result<Overrides, Refusal> {
    let mut overrides = match change {
        ConfigChange::Replace(_) => Overrides::new(),
        ConfigChange::Edit(_) => current.clone(),
    };
    match change {
        ConfigChange::Replace(values) => {
            for (name, value) in values {
                overrides.insert(name.clone(), present(name, value.as_deref())?.to_owned());
            }
        }
        ConfigChange::Edit(edits) => {
            for edit in edits {
                match edit.operation {
                    ConfigOperation::Delete => {
                        overrides.remove(&edit.name);
                    }
                    ConfigOperation::Set => {
                        let value = present(&edit.name, edit.value.as_deref())?;
                        overrides.insert(edit.name.clone(), value.to_owned());
                    }
                    ConfigOperation::Append | ConfigOperation::Subtract => {
                        let value = present(&edit.name, edit.value.as_deref())?;
                        let list = edit_list(&overrides, &edit.name, value, edit.operation)?;
                        overrides.insert(edit.name.clone(), list);
                    }
                }
            }
        }
    }
    check(&overrides, "config")
}

/// Checks a layer by Kafka's rules and by what this engine can do; answers it in canonical form. `field` is where the layer
/// was written, for error messages.
///
/// # Errors
/// [`Refusal::InvalidConfig`].
pub fn check(overrides: &Overrides, field: &str) -> Result<Overrides, Refusal> {
    let canonical = settings::canonical(overrides).map_err(|error| Refusal::invalid(field, &error))?;
    let compacted = canonical
        .get("cleanup.policy")
        .is_some_and(|policy| policy.split(',').any(|member| member.trim() == "compact"));
    if compacted {
        return Err(Refusal::InvalidConfig {
            field: format!("{field}.cleanup.policy"),
            message: "Invalid value compact for configuration cleanup.policy: compaction is not supported yet; use delete"
                .to_owned(),
        });
    }
    Ok(canonical)
}

fn present<'a>(name: &str, value: Option<&'a str>) -> Result<&'a str, Refusal> {
    value.ok_or_else(|| Refusal::InvalidRequest(format!("Null value not supported for : {name}")))
}

fn edit_list(
    overrides: &Overrides,
    name: &str,
    operand: &str,
    operation: ConfigOperation,
) -> Result<String, Refusal> {
    let key = keys::find(name).map_err(|error| Refusal::invalid("config", &error))?;
    if key.kind != Kind::List {
        let word = match operation {
            ConfigOperation::Append => "APPEND",
            _ => "SUBTRACT",
        };
        return Err(Refusal::InvalidConfig {
            field: format!("config.{name}"),
            message: format!("Can't {word} to key {name} because its type is not LIST."),
        });
    }
    let current = overrides
        .get(name)
        .map(String::as_str)
        .or(key.default)
        .unwrap_or("");
    let mut members: Vec<&str> = current
        .split(',')
        .map(str::trim)
        .filter(|member| !member.is_empty())
        .collect();
    for member in operand.split(',').map(str::trim) {
        if operation == ConfigOperation::Append {
            if !members.contains(&member) {
                members.push(member);
            }
        } else {
            members.retain(|present| *present != member);
        }
    }
    Ok(members.join(","))
}

#[cfg(test)]
#[path = "alter_tests.rs"]
mod tests;
