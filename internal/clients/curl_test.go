//go:build clients

package clients

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// What curl is served is a script that runs it.
func TestCurlRunsTheScriptItIsServed(t *testing.T) {
	theMesh(t)
	v := version(t, "curl")
	row, o := "curl "+v, mesh.Offer{Protocol: mesh.ProtocolHTTP, Transport: mesh.TransportTCP}
	run.table.set(row, o, "failed")
	script := curlScript(write(t, "curl.sh", subscribe(t, "curl", dev.CellName).served(t, "curl/"+v, "")))
	for _, host := range []string{"127.0.0.1", "[::1]", originName, originIDN} {
		got, err := script.run(t.Context(), "http://"+host+":"+strconv.Itoa(int(run.origin.port))+"/page")
		if err != nil || got != page {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
	noise := writeNoise(t) // absolute form; the download is a tunnel
	down := func(ctx context.Context) error {
		text, err := script.run(ctx, "--proxytunnel", run.origin.url("/bytes?n="+strconv.Itoa(bulk)))
		if err != nil {
			return err
		}
		got, err := sum(strings.NewReader(text))
		return sameSum("download", got, err)
	}
	up := func(ctx context.Context) error {
		got, err := script.run(ctx, "--request", "POST", "--upload-file", noise, run.origin.url("/sum"))
		return sameSum("upload", got, err)
	}
	together(t, down, down, up, up)
	if !t.Failed() {
		run.table.set(row, o, "TCP")
	}
}

type curlScript string

func (s curlScript) run(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "sh", append([]string{string(s), "--silent", "--show-error"}, args...)...).Output()
	return string(out), explain(err)
}

// explain adds what a process said before it failed.
func explain(err error) error {
	if e, ok := err.(*exec.ExitError); ok {
		return fmt.Errorf("%w: %s", err, e.Stderr)
	}
	return err
}
