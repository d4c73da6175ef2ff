package cmd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshctl/meshctl/internal/notify"
)

// notified runs a role's work, and tells the service manager, if there is one,
// how it goes. The role lives as long as its metrics can be gathered: that
// takes the locks of every part, and no descriptor of the process.
func notified(ctx context.Context, role notify.Role, metrics prometheus.Gatherer, work func(context.Context) error) (err error) {
	m, err := serviceManager(role.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	role.Manager = m
	role.Alive = func() {
		if _, err := metrics.Gather(); err != nil {
			role.Log.Debug("metrics not gathered", "err", err)
		}
	}
	own, end := context.WithCancel(context.WithoutCancel(ctx)) // signs of life go on while work drains
	var wg sync.WaitGroup
	wg.Go(func() { role.Run(own, ctx.Done()) })
	defer wg.Wait()
	defer end()
	return work(ctx)
}

// serviceManager is whom the environment names, and no child of this process
// will find. One that cannot be reached is no reason not to serve: a shell may
// have inherited its name.
func serviceManager(log *slog.Logger) (*notify.Manager, error) {
	m, err := notify.Open(os.Getenv)
	if err != nil {
		log.Warn("service manager not reached", "err", err)
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// credential is the path of a secret that the service manager handed over, as
// LoadCredential= of systemd does; "" when there is none of that name.
func credential(name string) string {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return ""
	}
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// isCredential says whether a file is in the manager's folder. Such a file is
// guarded by the folder; its mode may show a group that is none, since the
// manager grants this user's access by a list of its own.
func isCredential(file string) bool {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	return dir != "" && filepath.Dir(file) == filepath.Clean(dir)
}
