#!/usr/bin/env bash
# A whole Kubernetes node for tests/support/node.rs, which runs this as the first process of namespaces of its own (processes, mounts,
# network): whatever is started, mounted or added here ends with it. $1 is the folder for all files; the programs are on PATH.
# Images to load are in $1/images.
set -euo pipefail
home=$1
cd "$home"
mkdir -p log cni volume
# What these programs insist on having at fixed places is not the machine's own.
for folder in /run /var/lib/cni /var/lib/kubelet /var/log/pods /var/log/containers; do
    mkdir -p "$folder"
    mount -t tmpfs none "$folder"
done
mkdir /run/lock

ip link set lo up
# The API server's address: not loopback, and not the pods' bridge, whose own address Service traffic cannot come back from.
ip address add 10.99.0.1/32 dev lo
ip link add node0 type bridge
ip address add 10.98.0.1/24 dev node0
ip link set node0 up
ip route add default via 10.98.0.2 dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward
# A machine outside of the cluster, in the node's own network, that knows the way to the pods.
ip netns add outside
ip link add outside0 type veth peer name eth0 netns outside
ip link set outside0 master node0 up
ip -n outside address add 10.98.0.9/24 dev eth0
ip -n outside link set eth0 up
ip -n outside route add 10.97.0.0/24 via 10.98.0.1

# run NAME COMMAND…: in the background, with a log of its own.
run() {
    local name=$1
    shift
    "$@" >"log/$name.log" 2>&1 &
}
# keep NAME COMMAND…: the same, and started again when it ends, as a service manager does.
keep() {
    local name=$1
    shift
    while :; do
        "$@" >>"log/$name.log" 2>&1 || true
        sleep 0.5
    done &
}
# try WHAT COMMAND…: until it works, for a minute.
try() {
    local what=$1 left=300
    shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || {
            echo "$what did not come up; the end of its log:"
            tail -n 20 "log/$what.log"
            exit 1
        }
        sleep 0.2
    done
}

openssl genrsa -out service-account.key 2048 2>/dev/null
echo 'tidemark-tests-admin,admin,admin,system:masters' >tokens.csv
cat >kubeconfig <<END
apiVersion: v1
kind: Config
current-context: tests
clusters: [{name: tests, cluster: {server: "https://10.99.0.1:6443", certificate-authority: "$home/certificates/apiserver.crt"}}]
users: [{name: admin, user: {token: tidemark-tests-admin}}]
contexts: [{name: tests, context: {cluster: tests, user: admin, namespace: default}}]
END
export KUBECONFIG=$home/kubeconfig

run etcd etcd --unsafe-no-fsync --log-level=warn --name=tests --data-dir="$home/etcd"
run kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --cert-dir="$home/certificates" --token-auth-file=tokens.csv \
    --service-account-key-file=service-account.key --service-account-signing-key-file=service-account.key \
    --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range=10.0.0.0/24 --secure-port=6443 \
    --bind-address=0.0.0.0 --advertise-address=10.99.0.1 --authorization-mode=RBAC --allow-privileged --shutdown-delay-duration=0s \
    --kubelet-preferred-address-types=InternalIP

cat >containerd.toml <<END
version = 2
root = "$home/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "tidemark.dev/tests/pause:1"
disable_apparmor = true
# An OOM score below our own is not ours to set.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$home/cni"
END
# Pods need the default route for the addresses of Services.
cat >cni/pods.conflist <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true, "isDefaultGateway": true,
 "hairpinMode": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.97.0.0/24"}]]}}]}
END
keep containerd containerd --config containerd.toml

# image TAG FILE…: an archive of an image of static programs, the first of which is what it runs.
image() {
    local tag=$1 work=images/work layer config
    shift
    rm -rf "$work"
    mkdir -p "$work/root" "$work/image"
    install -m 0755 "$@" "$work/root/"
    tar -cf "$work/layer" -C "$work/root" .
    layer=$(sha256sum "$work/layer" | cut -d' ' -f1)
    mv "$work/layer" "$work/image/$layer.tar"
    printf '{"architecture": "amd64", "os": "linux", "config": {"User": "65532:65532", "Entrypoint": ["/%s"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}, "history": []}' "$(basename "$1")" "$layer" >"$work/config"
    config=$(sha256sum "$work/config" | cut -d' ' -f1)
    mv "$work/config" "$work/image/$config.json"
    printf '[{"Config": "%s.json", "RepoTags": ["%s"], "Layers": ["%s.tar"]}]' "$config" "$tag" "$layer" >"$work/image/manifest.json"
    tar -cf "images/$(basename "$1").tar" -C "$work/image" .
    rm -rf "$work"
}
cat >pause.c <<'END'
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int signal) { _exit(0); }
static void reap(int signal) { while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) { signal(SIGTERM, end); signal(SIGINT, end); signal(SIGCHLD, reap); for (;;) pause(); }
END
cc -static -Os -o pause pause.c
image tidemark.dev/tests/pause:1 pause
cp pause client
image docker.io/library/client:1 client "$(command -v franz)"

cat >kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
evictionHard: {}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
resolvConf: $home/resolv.conf
volumePluginDir: $home/plugins
END
: >resolv.conf

try containerd ctr --address /run/containerd/containerd.sock version
for archive in images/*.tar; do ctr --address /run/containerd/containerd.sock --namespace k8s.io images import "$archive"; done
try kube-apiserver kubectl get --raw=/readyz
run kube-controller-manager kube-controller-manager --kubeconfig=kubeconfig --leader-elect=false --cert-dir="$home/controller-manager" \
    --service-account-private-key-file=service-account.key --root-ca-file=certificates/apiserver.crt --use-service-account-credentials
run kube-scheduler kube-scheduler --kubeconfig=kubeconfig --leader-elect=false --cert-dir="$home/scheduler"
run kube-proxy kube-proxy --kubeconfig=kubeconfig --hostname-override=node --cluster-cidr=10.97.0.0/24 --proxy-mode=iptables \
    --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
keep kubelet kubelet --config=kubelet.yaml --kubeconfig=kubeconfig --hostname-override=node --node-ip=10.98.0.1
touch up

# The node is what all of them are: when one ends, it does.
wait -n || true
echo "a part of the node ended:"
tail -n 3 log/*.log || true
exit 1
