// Command kube is a whole Kubernetes in one program, for the tests: the first
// argument, or the name it is called by, chooses which part runs. It is a
// module of its own, so that none of it is a dependency of meshctl.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	parts := map[string]func() *cobra.Command{
		"etcd":                    newEtcdCommand,
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kube-proxy":              proxy.NewProxyCommand,
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	}
	part := parts[filepath.Base(os.Args[0])]
	if part == nil && len(os.Args) > 1 {
		part = parts[os.Args[1]]
		os.Args = os.Args[1:]
	}
	if part == nil {
		fmt.Fprintln(os.Stderr, "usage: kube", strings.Join(slices.Sorted(maps.Keys(parts)), "|"), "[FLAGS]")
		os.Exit(2)
	}
	os.Exit(cli.Run(part()))
}
