package embedded_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"github.com/meshctl/meshctl/pkg/store/storetest"
)

func TestABeginningThatWasCutOffIsBegunAnew(t *testing.T) {
	var log logBuffer
	ca, dir := storetest.NewCA(t), t.TempDir()
	logs := filepath.Join(dir, "etcd", "member", "wal")
	w, err := wal.Create(zap.NewNop(), logs, nil) // what there is when the process is killed just then
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	m := newMember(t, ca, dir, &log)
	run(t, m)
	s := open(t, m)
	defer s.Close()
	add(t, s)
	if !strings.Contains(log.String(), "unfinished beginning discarded") {
		t.Errorf("nobody is told:\n%s", &log)
	}
}

func TestAMemberThatWaitsForOthersStopsWhenAsked(t *testing.T) {
	var log logBuffer
	m := newMember(t, storetest.NewCA(t), t.TempDir(), &log)
	m.PeerURL = peerURL(t)
	m.Cluster = "one=" + m.PeerURL + ",two=https://127.0.0.1:1" // and two never comes
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx, func() { t.Error("it is ready without a majority") }) }()
	for !strings.Contains(log.String(), "level=WARN") { // etcd is up, and says that it waits
		select {
		case err := <-done:
			t.Fatalf("it ended by itself: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("got %v at a stop", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not stop")
	}
}
