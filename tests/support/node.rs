//! A whole Kubernetes node: etcd, API server, controller manager, scheduler, containerd, kubelet and kube-proxy, with pods, volumes and
//! Services. Needs root.
//!
//! All of it runs in namespaces of its own (processes, mounts, network) whose first process is [`SCRIPT`]: the end of that process is the
//! end of every process, mount and interface, however the test ends. Only the empty control groups are left then, and removed here.
use super::peers;
use super::process::{ProcessGuard, Start};
use super::temp::TempDir;
use super::wait::eventually;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/node.sh");

/// How long anything on the node may take on a loaded machine.
pub const NODE_PATIENCE: Duration = Duration::from_secs(180);

/// Where a connection is made from.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    /// The network of the one container that runs this program.
    Container(&'static str),
    /// A machine that is no node and no pod.
    Outside,
}

#[derive(Debug)]
pub struct Node {
    process: ProcessGuard,
    /// The first process of the namespaces, as this process sees it.
    first: u32,
    path: String,
    groups_before: BTreeSet<PathBuf>,
    home: TempDir,
}

impl Node {
    /// With the images that `images` puts as archives into the folder it is given. The node is Ready when this returns.
    #[track_caller]
    pub fn start(images: impl FnOnce(&Path)) -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "a whole node needs root: its namespaces, mounts and containers are the kernel's"
        );
        let home = TempDir::new("node");
        let archives = home.join("images");
        std::fs::create_dir(&archives).expect("a folder in our own");
        images(&archives);
        let mut path = [
            "etcd",
            "kube-apiserver",
            "kubectl",
            "kube-controller-manager",
            "kube-scheduler",
            "kubelet",
            "kube-proxy",
            "go-clients",
        ]
        .map(|peer| peers::folder(peer).display().to_string())
        .join(":");
        path.push_str(":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let groups_before = control_groups();
        let mut process = Start::new("node", "unshare")
            .args([
                "--net",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
            ])
            .args(["bash", SCRIPT])
            .arg(home.path())
            .env("PATH", &path)
            .spawn(home.path());
        eventually("the node's processes to start", NODE_PATIENCE, || {
            process.must_run()?;
            home.join("up").exists().then_some(()).ok_or("not yet".to_owned())
        });
        let children = format!("/proc/{0}/task/{0}/children", process.pid());
        let first = std::fs::read_to_string(children).expect("our own child");
        let node = Self {
            first: first.trim().parse().expect("unshare has one child"),
            process,
            path,
            groups_before,
            home,
        };
        node.eventually("the node to be there", &["get", "node", "node"], |_| true);
        node.kubectl(["wait", "--for=condition=Ready", "node/node", "--timeout=120s"])
            .run();
        node
    }

    /// The folder that is the machine's disk for a PersistentVolume.
    pub fn volume(&self) -> PathBuf {
        self.home.join("volume")
    }

    /// A command in some of the node's namespaces, which `nsenter` has options for.
    fn inside(&self, name: &str, namespaces: &[&str]) -> Start {
        Start::new(name, "nsenter")
            .args(["--target", &self.first.to_string()])
            .args(namespaces.iter().copied())
            .arg("--")
            .env("PATH", &self.path)
    }

    /// A command in the node's network, as its administrator, in the root of the source tree.
    pub fn command(&self, program: &str) -> Start {
        self.inside(program, &["--net"])
            .arg(program)
            .env("KUBECONFIG", self.home.join("kubeconfig"))
            .env("HOME", self.home.path())
            .directory(env!("CARGO_MANIFEST_DIR"))
    }

    pub fn kubectl<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Start {
        self.command("kubectl").args(args)
    }

    /// A line as a person types it.
    #[track_caller]
    pub fn shell(&self, line: &str) -> String {
        let patience = NODE_PATIENCE.as_secs() * 2;
        let printed = self
            .command("timeout")
            .args([&patience.to_string(), "bash", "-euc", line])
            .run();
        println!("$ {line}\n{printed}");
        printed
    }

    #[track_caller]
    pub fn apply(&self, manifest: &str) -> String {
        self.kubectl(["apply", "-f", "-"]).run_with(manifest.as_bytes())
    }

    /// Waits until `kubectl ARGS` answers something that `accept` takes; answers it.
    #[track_caller]
    pub fn eventually(&self, what: &str, args: &[&str], accept: impl Fn(&str) -> bool) -> String {
        let kubectl = self.kubectl(args.iter().copied());
        eventually(what, NODE_PATIENCE, || {
            let output = kubectl.output();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && accept(&text) {
                return Ok(text);
            }
            Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)))
        })
    }

    /// NetworkPolicies are enforced until this process is stopped. The network of the pods itself does not; most clusters' does.
    pub fn enforce_policies(&self) -> ProcessGuard {
        // Not among the node's processes: whoever enters those stands between this process and its signals.
        self.inside("policies", &["--mount", "--net"])
            .arg(peers::executable("policies"))
            .arg(self.home.join("kubeconfig"))
            .args(["node", "10.0.0.0/24"])
            .spawn(self.home.path())
    }

    /// Whether a connection comes about, in more time than one takes on a loaded machine.
    pub fn connects(&self, from: Place, address: &str, port: u16) -> bool {
        let connect = format!("timeout 20 bash -c '</dev/tcp/{address}/{port}'");
        let line = match from {
            Place::Container(program) => {
                format!("nsenter --target $(pgrep -x {program}) --net -- {connect}")
            }
            Place::Outside => format!("ip netns exec outside {connect}"),
        };
        let connecting = self.inside("connect", &["--mount", "--pid", "--net"]);
        connecting.args(["bash", "-euc", &line]).output().status.success()
    }

    /// SIGKILL to the one process on the node that has this command line.
    #[track_caller]
    pub fn kill_process(&self, command_line: &str) {
        self.inside("pkill", &["--mount", "--pid"])
            .args(["pkill", "-KILL", "-x", "-f", command_line])
            .run();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let shown = self
                .command("bash")
                .args(["-c", "kubectl get pods,pvc,events -A; kubectl -n tidemark describe pods | tail -n 40; for c in engine operator; do kubectl -n tidemark logs tidemark-0 -c $c; done; tail -n 5 $HOME/log/*.log"])
                .output();
            eprintln!("{}", String::from_utf8_lossy(&shown.stdout));
        }
        self.process.kill();
        // The first process is gone only when every other of its namespace is.
        let first = format!("/proc/{}/stat", self.first);
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while std::fs::read_to_string(&first).is_ok_and(|stat| !stat.contains(") Z "))
            && std::time::Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        let groups = control_groups();
        let ours: Vec<_> = groups.difference(&self.groups_before).collect();
        for group in ours.into_iter().rev() {
            // The kernel refuses while something is in it, which then was not ours.
            drop(std::fs::remove_dir(group));
        }
    }
}

/// The control groups of pods, each after the one that holds it.
fn control_groups() -> BTreeSet<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect()
    };
    let mut found = BTreeSet::new();
    for hierarchy in list(Path::new("/sys/fs/cgroup")) {
        let pods = hierarchy.join("k8s.io");
        if pods.is_dir() {
            found.extend(list(&pods));
            found.insert(pods);
        }
    }
    found
}
