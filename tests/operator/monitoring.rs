//! `deploy/monitoring` against the definitions of the Prometheus operator, and against what there is to scrape.
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidemark::wire::client::{Client, ClientRecord};

use crate::running::{Operator, PATIENCE, apply, install, kubectl, ready};
use crate::support::kube::KubeApi;
use crate::support::peers;
use crate::support::temp::TempDir;
use crate::support::tidemark::Tidemark;
use crate::support::wait::until;

/// Labels that every scrape adds, whatever it is called.
const OF_THE_SCRAPE: &[&str] = &["namespace", "job", "instance"];

#[test]
fn monitoring_is_taken_and_names_what_there_is() {
    let kube = KubeApi::start();
    install(&kube);
    let definitions = peers::folder("prometheus-crds").display().to_string();
    kube.kubectl(["apply", "--server-side", "-f", &definitions]).run();
    for kind in ["servicemonitors", "prometheusrules"] {
        let crd = format!("crd/{kind}.monitoring.coreos.com");
        kube.kubectl(["wait", "--for=condition=Established", "--timeout=300s", &crd])
            .run();
    }
    let folder = peers::source("deploy/monitoring").display().to_string();
    let output = kube
        .kubectl(["apply", "--validate=strict", "-k", &folder])
        .output();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");

    the_service_is_found(&kube);
    alerts_and_documentation_name_what_is_scraped(&kube);
}

/// The ServiceMonitor selects exactly the Service with the metrics, and its ports are there.
fn the_service_is_found(kube: &KubeApi) {
    let monitor = get(kube, "servicemonitor", "tidemark");
    let labels: Vec<String> = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .expect("labels")
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_str().expect("text")))
        .collect();
    let services = kubectl(kube, ["get", "services", "-l", &labels.join(","), "-o", "name"]).run();
    assert_eq!(services.trim(), "service/tidemark-metrics");
    let service = get(kube, "service", "tidemark-metrics");
    let ports = names(&service["spec"]["ports"], "name");
    for port in names(&monitor["spec"]["endpoints"], "port") {
        assert!(ports.contains(&port), "{port}: {ports:?}");
    }
}

fn alerts_and_documentation_name_what_is_scraped(kube: &KubeApi) {
    let home = TempDir::new("monitoring");
    let engine = Tidemark::engine(home.path(), &[]);
    let operator = Operator::start(kube, engine.control());
    apply(kube, "orders", "{config: {retention.ms: 1h}}");
    ready(kube, "orders", "True/Applied");
    // Ordinary retention passes a reader: what counts that is there from the first time on.
    let long_ago = 1_700_000_000_000;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut client = Client::connect(engine.bootstrap(), "billing")
            .await
            .expect("an engine");
        let record = ClientRecord::new(long_ago, "late");
        client.produce("orders", 0, &[record]).await.expect("an offset");
        client.commit("billing", "orders", 0, 0).await.expect("a commit");
    });
    engine.pass();
    until("Topics to be counted", PATIENCE, || {
        operator.metric("tidemark_operator_topics{") >= 1.0
    });
    let monitor = get(kube, "servicemonitor", "tidemark");
    let scrape = || {
        let mut scraped = BTreeMap::new();
        for path in names(&monitor["spec"]["endpoints"], "path") {
            let reply = operator.get(&path);
            assert_eq!(reply.status, 200, "{path}");
            scraped.extend(series(&reply.body));
        }
        scraped
    };
    let lost = "reader_lost_records_total";
    until("the loss to be counted", PATIENCE, || scrape().contains_key(lost));
    // And a loss that is wanted.
    let half_an_hour_ago = jiff::Timestamp::now().as_millisecond() - 1_800_000;
    runtime.block_on(async {
        let mut client = Client::connect(engine.bootstrap(), "billing")
            .await
            .expect("an engine");
        let record = ClientRecord::new(half_an_hour_ago, "given up");
        client.produce("orders", 0, &[record]).await.expect("an offset");
    });
    apply(
        kube,
        "orders",
        "{config: {retention.ms: 1m}, readers: {onLoss: Allow}}",
    );
    let given_up = "loss_accepted_records_total";
    until("what was given up to be counted", PATIENCE, || {
        scrape().contains_key(given_up)
    });
    let scraped = scrape();
    for (page, name) in documented() {
        assert!(scraped.contains_key(&name), "{page}: {name} is not scraped");
    }
    for build in ["tidemark_build_info", "tidemark_operator_build_info"] {
        let labels = scraped.get(build).expect("each process tells its version");
        assert!(
            labels.contains("version") && labels.contains("revision"),
            "{labels:?}"
        );
    }
    let rule = get(kube, "prometheusrule", "tidemark");
    let mut checked = 0;
    for alert in rule["spec"]["groups"][0]["rules"].as_array().expect("a list") {
        let expression = alert["expr"].as_str().expect("text");
        assert!(
            !expression.contains("job="),
            "depends on the job's name: {expression}"
        );
        let ours = expression.contains("tidemark_build_info") || expression.contains("tidemark_operator_");
        assert!(ours, "anybody's series: {expression}");
        let known: Vec<&BTreeSet<String>> = metrics(expression)
            .iter()
            .map(|name| {
                scraped
                    .get(name)
                    .unwrap_or_else(|| panic!("{expression}: {name} is not scraped"))
            })
            .collect();
        assert!(!known.is_empty(), "{expression}");
        for label in labels(expression, &alert["annotations"].to_string()) {
            let there = known[0].contains(&label);
            assert!(
                there || OF_THE_SCRAPE.contains(&label.as_str()),
                "{expression}: no label {label}"
            );
        }
        checked += 1;
    }
    assert!(checked >= 5);
}

/// Metrics that the documentation speaks of, each with its page: what is written like one and is none of the other things so written.
fn documented() -> Vec<(String, String)> {
    let mut pages = vec![peers::source("README.md")];
    for folder in ["deploy/docs", "deploy/docs/reasons"] {
        let entries = std::fs::read_dir(peers::source(folder)).expect("a folder of the source tree");
        pages.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    let name = regex::Regex::new("`([a-z]+(?:_[a-z]+)+)`").expect("a pattern");
    let mut found = Vec::new();
    for page in pages.iter().filter(|page| page.is_file()) {
        let text = std::fs::read_to_string(page).expect("text");
        let names = name.captures_iter(&text).map(|found| found[1].to_owned());
        found.extend(
            names
                .filter(|name| name != "read_committed")
                .map(|name| (page.display().to_string(), name)),
        );
    }
    assert!(found.len() > 5, "{found:?}");
    found
}

fn get(kube: &KubeApi, kind: &str, name: &str) -> Value {
    let text = kubectl(kube, ["get", kind, name, "-o", "json"]).run();
    serde_json::from_str(&text).expect("JSON")
}

fn names(list: &Value, field: &str) -> Vec<String> {
    let all = list.as_array().expect("a list").iter();
    all.map(|item| item[field].as_str().expect("text").to_owned())
        .collect()
}

/// Names as a query writes them, each with the labels that it was seen with.
fn series(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a type");
            let suffixes: &[&str] = match kind {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            for suffix in suffixes {
                all.entry(format!("{name}{suffix}")).or_default();
            }
        } else if !line.starts_with('#') {
            let (name, rest) = line.split_once(['{', ' ']).expect("a sample");
            let labels = rest.split("=\"").filter_map(|before| {
                let name = before.rsplit([',', '{', '"']).next()?;
                name.chars()
                    .all(|c| c.is_ascii_lowercase() || c == '_')
                    .then(|| name.to_owned())
            });
            let labels: Vec<String> = match line.contains('{') {
                true => labels.filter(|label| !label.is_empty()).collect(),
                false => Vec::new(),
            };
            all.entry(name.to_owned()).or_default().extend(labels);
        }
    }
    all
}

/// The names of metrics in an expression: what is no function, no list of labels, no duration.
fn metrics(expression: &str) -> Vec<String> {
    let mut bare = expression.to_owned();
    for (start, end) in [("and on (", ')'), ("by (", ')'), ("{", '}'), ("[", ']')] {
        while let Some(from) = bare.find(start) {
            let to = bare[from..].find(end).expect("it is closed");
            bare.replace_range(from..=from + to, " ");
        }
    }
    let functions: Vec<String> = bare
        .match_indices('(')
        .filter_map(|(at, _)| words(bare[..at].trim_end()).last().map(str::to_owned))
        .collect();
    words(&bare)
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
        .filter(|word| !functions.iter().any(|function| function == word))
        .map(str::to_owned)
        .collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

/// Labels that a rule speaks of: in `by (…)` and `on (…)`, in matchers, and in its annotations.
fn labels(expression: &str, annotations: &str) -> Vec<String> {
    let between = |text: &str, start: &str, end: char| -> Vec<String> {
        text.split(start)
            .skip(1)
            .filter_map(|after| after.split(end).next().map(str::to_owned))
            .collect()
    };
    let mut all: Vec<String> = Vec::new();
    for start in ["by (", "on ("] {
        for list in between(expression, start, ')') {
            all.extend(list.split(", ").map(str::to_owned));
        }
    }
    for list in between(expression, "{", '}') {
        all.extend(words(&list).next().map(str::to_owned));
    }
    for word in between(annotations, "$labels.", ' ') {
        all.push(word);
    }
    all
}
