// The definitions of ServiceMonitor and PrometheusRule, which the Prometheus operator's module carries as files.
module tidemark.dev/tests/peers/prometheus

go 1.25.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
