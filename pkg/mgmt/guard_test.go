package mgmt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func newGuard(t *testing.T, logs *logBuffer) (*guard, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := newMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	return &guard{access: newAccess(false, false), metrics: m, log: logs.logger()}, reg
}

// counted returns the number of series of a counter, and their sum.
func counted(t *testing.T, reg *prometheus.Registry, name string) (series int, sum float64) {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				series++
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return series, sum
}

func TestAPanicEndsOneCallAndIsCounted(t *testing.T) {
	logs := new(logBuffer)
	g, reg := newGuard(t, logs)
	err := func() (err error) {
		defer g.finish(methodRenew, &err)
		panic("secret state")
	}()
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret state") {
		t.Errorf("the caller is told %v", err)
	}
	if _, n := counted(t, reg, "meshctl_mgmt_panics_total"); n != 1 || !strings.Contains(logs.String(), "secret state") {
		t.Error("the panic is neither counted nor logged")
	}
}

func TestACallThatCameThroughNoPortIsDenied(t *testing.T) {
	g, _ := newGuard(t, new(logBuffer))
	_, err := g.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: methodEnroll}, func(context.Context, any) (any, error) {
		t.Error("the method ran")
		return nil, nil
	})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("got %v", err)
	}
}

func TestStrangersMakeNoSeries(t *testing.T) {
	g, reg := newGuard(t, new(logBuffer))
	for i := range 10 {
		g.metrics.called(g.access, fmt.Sprintf("/x/%d", i), codes.PermissionDenied)
	}
	if n, sum := counted(t, reg, "meshctl_mgmt_calls_total"); n != 1 || sum != 10 {
		t.Errorf("%d series of %v calls, want 1 of 10", n, sum)
	}
}

func TestFaultsInsideAreNotToldToNodes(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, inside := range []error{errors.New("dial 127.0.0.1:2379"), fmt.Errorf("dial 127.0.0.1:2379: %w", mesh.ErrUnavailable)} {
		if err := outward(log, "renew", inside); mesh.Kind(err) != mesh.ErrUnavailable || strings.Contains(err.Error(), "2379") {
			t.Errorf("%v becomes %v", inside, err)
		}
	}
	refused := fmt.Errorf("the token expired: %w", mesh.ErrDenied)
	if err := outward(log, "enroll", refused); !errors.Is(err, refused) {
		t.Errorf("%v becomes %v", refused, err)
	}
	if outward(log, "enroll", nil) != nil {
		t.Error("nil becomes an error")
	}
}
