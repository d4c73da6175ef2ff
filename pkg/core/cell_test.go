package core

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/identity/identitytest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func request(t *testing.T, c *cell, now time.Time) *controlpb.CellRequest {
	t.Helper()
	req, _, err := c.due(now)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestCellCertificateFromRequestToRenewal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cell.pem")
	ca := newCellCA(t, suffix)
	c := openCell(path, quiet())
	now := time.Now()
	if request(t, c, now) != nil {
		t.Error("asked before anything was wanted")
	}
	c.want(suffix, "cell-1")
	req := request(t, c, now)
	if req == nil || req.GetCellId() != "cell-1" {
		t.Fatalf("request %v", req)
	}
	if request(t, c, now.Add(time.Second)) != nil {
		t.Error("asked twice")
	}
	good := &controlpb.CellCertificate{Chain: ca.sign(t, req.GetCsr(), 3*time.Hour)}
	if taken, err := c.answer(good, now); err != nil || !taken {
		t.Fatalf("taken %v, %v", taken, err)
	}
	if taken, err := c.answer(good, now); err != nil || taken {
		t.Errorf("said twice: taken %v, %v", taken, err)
	}
	if c.certificate(now) == nil || request(t, c, now.Add(time.Hour)) != nil {
		t.Error("a good certificate is not used, or renewed at once")
	}
	if request(t, c, now.Add(150*time.Minute)) == nil {
		t.Error("not renewed late in its life")
	}
	if c.certificate(now.Add(4*time.Hour)) != nil {
		t.Error("shown after its end")
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	again := openCell(path, quiet())
	again.want(suffix, "cell-1")
	if again.certificate(now) == nil {
		t.Error("lost by a restart")
	}
	again.want("b.example.net", "cell-2")
	if again.certificate(now) != nil || request(t, again, now) == nil {
		t.Error("a certificate of the old cell is shown, or no new one asked for")
	}
}

func TestCellAnswersThatDoNotFit(t *testing.T) {
	ca, other := newCellCA(t, suffix), newCellCA(t, "b.example.net")
	tests := []struct {
		name   string
		answer func(csr []byte) *controlpb.CellCertificate
		want   error
	}{
		{"a refusal", func([]byte) *controlpb.CellCertificate { return &controlpb.CellCertificate{Error: "no"} }, mesh.ErrDenied},
		{"nothing", func([]byte) *controlpb.CellCertificate { return &controlpb.CellCertificate{} }, mesh.ErrInvalid},
		{"rubbish", func([]byte) *controlpb.CellCertificate { return &controlpb.CellCertificate{Chain: [][]byte{{1}, {2}}} }, mesh.ErrInvalid},
		{"another key", func([]byte) *controlpb.CellCertificate {
			other := openCell("", quiet())
			other.want(suffix, "cell-1")
			csr := request(t, other, time.Now()).GetCsr()
			return &controlpb.CellCertificate{Chain: ca.sign(t, csr, time.Hour)}
		}, mesh.ErrInvalid},
		{"another suffix", func(csr []byte) *controlpb.CellCertificate {
			return &controlpb.CellCertificate{Chain: other.sign(t, csr, time.Hour)}
		}, mesh.ErrInvalid},
		{"a chain to another CA", func(csr []byte) *controlpb.CellCertificate {
			return &controlpb.CellCertificate{Chain: [][]byte{ca.sign(t, csr, time.Hour)[0], other.cert.Raw}}
		}, mesh.ErrInvalid},
		{"one that has ended", func(csr []byte) *controlpb.CellCertificate {
			return &controlpb.CellCertificate{Chain: ca.sign(t, csr, -time.Second)}
		}, mesh.ErrInvalid},
	}
	for _, tt := range tests {
		c := openCell("", quiet())
		c.want(suffix, "cell-1")
		now := time.Now()
		_, err := c.answer(tt.answer(request(t, c, now).GetCsr()), now)
		if !errors.Is(err, tt.want) || c.certificate(now) != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if request(t, c, now.Add(time.Minute)) != nil || request(t, c, now.Add(time.Hour)) == nil {
			t.Errorf("%s: want another request, but not at once", tt.name)
		}
	}
	c := openCell("", quiet())
	if _, err := c.answer(&controlpb.CellCertificate{}, time.Now()); !errors.Is(err, mesh.ErrConflict) {
		t.Errorf("an answer nobody asked for: %v", err)
	}
}

func TestADamagedCellFileCostsARequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cell.pem")
	if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	c := openCell(path, quiet())
	c.want(suffix, "cell-1")
	if request(t, c, time.Now()) == nil {
		t.Error("no request")
	}
}

// The core asks when its configuration arrives, again when nobody answered,
// and stops asking once it has a certificate.
func TestAttendAsksUntilItHasACertificate(t *testing.T) {
	m := identitytest.New(t)
	ca := newCellCA(t, suffix)
	s, err := New(Options{Node: m.Node(t, mesh.RoleCore), Revocations: m.Revocations(t), Config: DefaultConfig(), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan *controlpb.CellRequest, 10)
	done := make(chan error, 1)
	go func() {
		done <- s.Attend(ctx, func(m *controlpb.NodeMessage) error { asked <- m.GetCellRequest(); return nil })
	}()
	if err := s.ApplyConfig(ctx, &controlpb.Config{CellSuffix: suffix, CellId: "cell-1"}); err != nil {
		t.Fatal(err)
	}
	req := <-asked
	answer := &controlpb.MgmtMessage{Body: &controlpb.MgmtMessage_CellCertificate{CellCertificate: &controlpb.CellCertificate{Chain: ca.sign(t, req.GetCsr(), time.Hour)}}}
	if err := s.Handle(ctx, answer, nil); err != nil {
		t.Fatal(err)
	}
	if s.state() != StateReady {
		t.Errorf("state %s", s.state())
	}
	cancel()
	if err := <-done; err != nil || len(asked) != 0 {
		t.Errorf("%v, %d more requests", err, len(asked))
	}
}

func TestAnUnansweredRequestIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openCell("", quiet())
		c.want(suffix, "cell-1")
		if request(t, c, time.Now()) == nil {
			t.Fatal("no request")
		}
		_, wait, err := c.due(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(wait)
		if request(t, c, time.Now()) == nil {
			t.Errorf("not repeated after %v", wait)
		}
	})
}
