//go:build kube

package kube

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// metricsName is that of the Service of metrics-server, in kube-system, and
// metricsPort where it listens.
const (
	metricsName = "metrics-server"
	metricsPort = 4443

	metricsAPI = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"
)

// metricsBuild is made of test/metrics, which pins the versions that
// metrics-server itself does: they are not those of the Kubernetes here.
var metricsBuild = built{
	name: metricsName, version: metricsName + "-0.8.0", module: "metrics", pkg: "sigs.k8s.io/metrics-server/cmd/metrics-server",
	files: []string{"go.mod", "go.sum"}, flags: []string{"-trimpath", "-buildvcs=false", "-ldflags", "-s -w"},
	says: "metrics-server: 3 to 6 minutes the first time",
}

// serveMetrics has the real metrics-server ask every kubelet what its pods use,
// and the API server pass on what it says, until the test ends. Both sides are
// known by certificate: it to the kubelets, and they and the API server to it.
func (k *Kube) serveMetrics(t testing.TB) {
	t.Helper()
	program, err := metricsBuild.program(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := k.control
	conf, err := c.pki.kubeconfig("metrics", c.url())
	if err != nil {
		t.Fatal(err)
	}
	server, err := c.Start(metricsName, filepath.Join(c.logs, metricsName+".log"), exec.Command(program,
		"--kubeconfig="+conf, "--authentication-kubeconfig="+conf, "--authorization-kubeconfig="+conf,
		fmt.Sprint("--secure-port=", metricsPort), "--tls-cert-file="+c.pki.cert("metrics"), "--tls-private-key-file="+c.pki.key("metrics"),
		"--metric-resolution=10s", "--kubelet-request-timeout=5s", "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-certificate-authority="+c.pki.cert("ca"), "--kubelet-client-certificate="+c.pki.cert("metrics"), "--kubelet-client-key="+c.pki.key("metrics")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
	})
	ca, err := os.ReadFile(c.pki.cert("ca"))
	if err != nil {
		t.Fatal(err)
	}
	k.publish(t, ca)
	k.WaitFor(t, "metrics of pods are served", func() error {
		if !server.Running() {
			return fmt.Errorf("metrics-server has ended\n%s", server.Tail(10))
		}
		pods, err := k.admin.get(t.Context(), "/apis/metrics.k8s.io/v1beta1/pods")
		if err == nil && len(pods.list("items")) == 0 {
			err = fmt.Errorf("of no pod\n%s", server.Tail(3))
		}
		return err
	})
}

// publish makes the API server pass on requests for metrics: to a Service without
// pods, whose one address is the host of the control plane.
func (k *Kube) publish(t testing.TB, ca []byte) {
	t.Helper()
	meta := func(more object) object {
		meta := object{"name": metricsName, "namespace": "kube-system"}
		maps.Copy(meta, more)
		return meta
	}
	const slices, services = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", "/api/v1/namespaces/kube-system/services"
	for _, made := range []struct {
		list, at string
		o        object
	}{
		{services, services + "/" + metricsName, object{"metadata": meta(nil), "spec": object{"ports": []object{{"name": "https", "port": 443, "targetPort": metricsPort}}}}},
		{slices, slices + "/" + metricsName, object{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
			"metadata":  meta(object{"labels": object{"kubernetes.io/service-name": metricsName}}),
			"endpoints": []object{{"addresses": []string{k.control.addr.String()}, "conditions": object{"ready": true}}},
			"ports":     []object{{"name": "https", "port": metricsPort, "protocol": "TCP"}}}},
		{filepath.Dir(metricsAPI), metricsAPI, object{"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": object{"name": filepath.Base(metricsAPI)},
			"spec": object{"service": object{"name": metricsName, "namespace": "kube-system"}, "group": "metrics.k8s.io", "version": "v1beta1",
				"caBundle": ca, "groupPriorityMinimum": 100, "versionPriority": 100}}},
	} {
		if _, err := k.admin.do(t.Context(), http.MethodPost, made.list, "", made.o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := k.admin.delete(context.WithoutCancel(t.Context()), made.at); err != nil {
				t.Error(err)
			}
		})
	}
}
