//! A real Kubernetes API: kube-apiserver with RBAC on top of etcd. No controller manager and no node, which most tests of an operator do
//! not need; the `node` tier has a whole one.
use super::peers;
use super::ports::free_port;
use super::process::{ProcessGuard, Start};
use super::temp::TempDir;
use super::wait::{PATIENCE, eventually};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The bearer token of the cluster's administrator (group `system:masters`).
pub const ADMIN_TOKEN: &str = "tidemark-tests-admin";

#[derive(Debug)]
pub struct KubeApi {
    api: Option<ProcessGuard>,
    etcd: Option<ProcessGuard>,
    etcd_port: u16,
    etcd_peer_port: u16,
    port: u16,
    kubeconfig: PathBuf,
    extra: Vec<String>,
    home: TempDir,
}

impl KubeApi {
    /// Ready to be asked when this returns.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With flags added to kube-apiserver's.
    #[track_caller]
    pub fn start_with(extra: &[&str]) -> Self {
        let home = TempDir::new("kube");
        std::fs::write(
            home.join("tokens.csv"),
            format!("{ADMIN_TOKEN},admin,admin,system:masters\n"),
        )
        .expect("a file in our own folder");
        let key = home.join("service-account.key");
        Start::new("openssl", "openssl")
            .args(["genrsa", "-out"])
            .arg(&key)
            .arg("2048")
            .run();
        let mut api = Self {
            api: None,
            etcd: None,
            etcd_port: free_port(),
            etcd_peer_port: free_port(),
            port: free_port(),
            kubeconfig: home.join("admin.kubeconfig"),
            extra: extra.iter().map(|flag| (*flag).to_owned()).collect(),
            home,
        };
        std::fs::write(&api.kubeconfig, api.kubeconfig_for(ADMIN_TOKEN)).expect("a file in our own folder");
        api.start_etcd();
        api.start_api();
        api
    }

    #[track_caller]
    pub fn start_etcd(&mut self) {
        assert!(self.etcd.is_none(), "etcd already runs");
        let (client, peer) = (
            self.etcd_url(),
            format!("http://127.0.0.1:{}", self.etcd_peer_port),
        );
        let data = self.home.join("etcd");
        let start = Start::new("etcd", peers::executable("etcd"))
            .args([
                "--unsafe-no-fsync",
                "--logger=zap",
                "--log-level=warn",
                "--name=tests",
            ])
            .arg("--data-dir")
            .arg(data)
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=tests={peer}"));
        self.etcd = Some(start.spawn(self.home.path()));
    }

    /// Starts the stopped or killed API server on the same port and waits until it is ready.
    #[track_caller]
    pub fn start_api(&mut self) {
        assert!(self.api.is_none(), "kube-apiserver already runs");
        let key = self.home.join("service-account.key");
        let start = Start::new("kube-apiserver", peers::executable("kube-apiserver"))
            .arg(format!("--etcd-servers={}", self.etcd_url()))
            .arg(format!("--service-account-key-file={}", key.display()))
            .arg(format!("--service-account-signing-key-file={}", key.display()))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(format!("--cert-dir={}", self.home.join("certificates").display()))
            .arg(format!(
                "--token-auth-file={}",
                self.home.join("tokens.csv").display()
            ))
            .args([
                "--bind-address=127.0.0.1",
                "--authorization-mode=RBAC",
                "--allow-privileged=true",
            ])
            .args([
                "--service-cluster-ip-range=10.0.0.0/24",
                "--disable-admission-plugins=ServiceAccount",
            ])
            // Faster to stop, and no reconciling of a Service that nothing here uses.
            .args(["--endpoint-reconciler-type=none", "--shutdown-delay-duration=0s"])
            .arg(format!("--secure-port={}", self.port))
            .args(self.extra.iter());
        let mut process = start.spawn(self.home.path());
        let kubectl = self.kubectl(["get", "--raw=/readyz"]);
        eventually("kube-apiserver to be ready", PATIENCE, || {
            process.must_run()?;
            let output = kubectl.output();
            if output.status.success() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&output.stderr).into_owned())
            }
        });
        self.api = Some(process);
    }

    /// SIGTERM; its address refuses connections until [`KubeApi::start_api`].
    #[track_caller]
    pub fn stop_api(&mut self) {
        if let Some(mut process) = self.api.take() {
            process.stop();
        }
    }

    pub fn kill_api(&mut self) {
        if let Some(mut process) = self.api.take() {
            process.kill();
        }
    }

    #[track_caller]
    pub fn stop_etcd(&mut self) {
        if let Some(mut process) = self.etcd.take() {
            process.stop();
        }
    }

    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The folder of all its files, with the logs `etcd.log` and `kube-apiserver.log`.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The certificate that clients must trust; kube-apiserver makes it at its first start.
    pub fn certificate_authority(&self) -> PathBuf {
        self.home.join("certificates/apiserver.crt")
    }

    /// The administrator's kubeconfig file.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The text of a kubeconfig for the bearer of another token, such as one from `kubectl create token`.
    pub fn kubeconfig_for(&self, token: &str) -> String {
        self.kubeconfig_at(&self.url(), token)
    }

    /// The same through another address, such as a proxy that makes faults.
    pub fn kubeconfig_at(&self, url: &str, token: &str) -> String {
        let authority = self.certificate_authority();
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: tests\n\
             clusters: [{{name: tests, cluster: {{server: '{url}', certificate-authority: '{}'}}}}]\n\
             users: [{{name: user, user: {{token: '{token}'}}}}]\n\
             contexts: [{{name: tests, context: {{cluster: tests, user: user, namespace: default}}}}]\n",
            authority.display()
        )
    }

    /// A kubeconfig file for a service account of the cluster, made with a token that lasts an hour.
    #[track_caller]
    pub fn kubeconfig_of_service_account(&self, namespace: &str, name: &str) -> PathBuf {
        let token = self
            .kubectl(["create", "token", "-n", namespace, name, "--duration=1h"])
            .run();
        let file = self.home.join(format!("{namespace}.{name}.kubeconfig"));
        std::fs::write(&file, self.kubeconfig_for(token.trim())).expect("a file in our own folder");
        file
    }

    /// kubectl as the administrator; `.run()`, `.run_with(stdin)` or `.output()` it.
    #[track_caller]
    pub fn kubectl<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Start {
        Start::new("kubectl", peers::executable("kubectl"))
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            .args(args)
    }

    /// `kubectl apply -f -`.
    #[track_caller]
    pub fn apply(&self, manifest: &str) -> String {
        self.kubectl(["apply", "-f", "-"]).run_with(manifest.as_bytes())
    }

    /// Waits until `kubectl ARGS` answers something that `accept` takes; answers it.
    #[track_caller]
    pub fn eventually<'a>(
        &self,
        what: &str,
        patience: Duration,
        args: impl IntoIterator<Item = &'a str>,
        accept: impl Fn(&str) -> bool,
    ) -> String {
        let kubectl = self.kubectl(args);
        eventually(what, patience, || {
            let output = kubectl.output();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && accept(&text) {
                return Ok(text);
            }
            Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)))
        })
    }
}

impl Drop for KubeApi {
    fn drop(&mut self) {
        // The API server first: without etcd it would only complain into its log.
        self.kill_api();
        self.etcd = None;
    }
}
