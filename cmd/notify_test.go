package cmd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/internal/notify"
)

func TestAManagerThatIsNotThereIsNoReasonNotToServe(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	t.Setenv("WATCHDOG_USEC", "1000000")
	var log strings.Builder
	served := errors.New("served")
	role := notify.Role{Serving: func() bool { return true }, Ready: func(context.Context) error { return nil }, Log: slog.New(slog.NewTextHandler(&log, nil))}
	err := notified(t.Context(), role, prometheus.NewRegistry(), func(context.Context) error {
		if v, ok := os.LookupEnv("NOTIFY_SOCKET"); ok {
			t.Errorf("children would find the manager at %q", v)
		}
		return served
	})
	if !errors.Is(err, served) || !strings.Contains(log.String(), "service manager not reached") {
		t.Errorf("%v, and the log says:\n%s", err, log.String())
	}
}

func TestCredentialsAreFoundAndTheirModeIsTheManagers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := errors.Join(os.WriteFile(file, []byte("secret\n"), 0o400), os.Chmod(file, 0o440)); err != nil {
		t.Fatal(err)
	}
	if got := credential("token"); got != "" {
		t.Errorf("without a manager there is %q", got)
	}
	if _, err := readSecretFile(t.Context(), "token", file, nil); err == nil {
		t.Error("a file that a group may read is taken from anybody")
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	if got := credential("other"); got != "" {
		t.Errorf("a credential that is not there is %q", got)
	}
	got, err := readSecretFile(t.Context(), "token", credential("token"), nil)
	if err != nil || got.Reveal() != "secret" {
		t.Errorf("%v, %v", got, err)
	}
}
