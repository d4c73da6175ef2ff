// Command pod is the program in the small images of the tests: called pause it
// keeps the namespaces of a pod; called fail it complains and ends; otherwise it
// serves HTTP on the ports of an entry and on 8080, and says which pod it is and who
// asks. Called unready it does so and is never ready.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	name := filepath.Base(os.Args[0])
	switch name {
	case "pause":
		go reap()
		<-ctx.Done()
		return
	case "fail":
		fmt.Fprintln(os.Stderr, "pod: this image ends at once")
		os.Exit(1)
	}
	if err := serve(ctx, name != "unready"); err != nil {
		fmt.Fprintln(os.Stderr, "pod:", err)
		os.Exit(1)
	}
}

// reap waits for children that others left behind, as process 1 must.
func reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for range ended {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func serve(ctx context.Context, ready bool) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s answers %s\n", host, r.RemoteAddr)
	})
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready {
			http.Error(w, "this image is never ready", http.StatusServiceUnavailable)
		}
	})
	failed := make(chan error, 3)
	for _, addr := range []string{":8080", ":8443", ":9602"} {
		go func() { failed <- http.ListenAndServe(addr, nil) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}
