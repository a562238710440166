// Enforces the NetworkPolicies of one node with kube-router's controller, until SIGTERM; none of its router or service proxy is built.
//
//	usage: policies KUBECONFIG NODE SERVICE-CIDR
package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	client := kubernetes.NewForConfigOrDie(must(clientcmd.BuildConfigFromFlags("", os.Args[1])))
	config := options.NewKubeRouterConfig()
	config.HostnameOverride = os.Args[2]
	config.ClusterIPCIDRs = []string{os.Args[3]}
	config.EnableIPv4, config.EnableIPv6 = true, false
	config.IPTablesSyncPeriod = time.Minute

	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	commands, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		panic(err)
	}
	controller := must(netpol.NewNetworkPolicyController(
		client, config, pods, policies, namespaces, new(sync.Mutex), commands, sets))

	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods: controller.PodEventHandler, namespaces: controller.NamespaceEventHandler, policies: controller.NetworkPolicyEventHandler,
	} {
		must(informer.AddEventHandler(handler))
	}
	// Nobody asks whether it is well.
	beats := make(chan *healthcheck.ControllerHeartbeat, 1)
	go func() {
		for range beats {
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	go controller.Run(beats, stop, &running)

	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	close(stop)
	running.Wait()
	// What it wrote into the kernel would go on without it.
	controller.Cleanup()
}
