//go:build clients

package clients

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/dev"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// A browser with the PAC file is asked for credentials at the hidden host alone,
// and then has pages. Until then it finds a web server that knows nothing.
func TestABrowserIsAskedAtTheHiddenHostOnly(t *testing.T) {
	theMesh(t)
	row := "Chromium " + version(t, "chromium")
	o := mesh.Offer{Protocol: mesh.ProtocolHTTP, Transport: mesh.TransportTCP}
	run.table.set(row, o, "failed")
	t.Run("two at once", func(t *testing.T) {
		for _, name := range []string{"browser", "other browser"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				browse(t, subscribe(t, name, dev.CellName))
			})
		}
	})
	if !t.Failed() {
		run.table.set(row, o, "TCP")
	}
}

func browse(t *testing.T, s subscriber) {
	m := run.mesh
	pac := string(s.served(t, "", "?format=pac&ca=installed"))
	b := newBrowser(t, m.CAFile(), pac, fmt.Sprintf("MAP *.%s %s", dev.CellSuffix, hostOf(t, m.EntryAddresses[0])))
	link := call(t, m, admin.DeviceLinkOf, admin.Ref{Ref: string(s.device.ID)})
	b.user, b.password = link.User, link.Secret

	url := "http://" + run.origin.at(originName) + "/page"
	if got, err := b.visit(url); strings.TrimSpace(got) == strings.TrimSpace(page) || b.challenges != 0 {
		t.Errorf("before it has credentials: %q, %v, asked %d times", got, err, b.challenges)
	}
	door := regexp.MustCompile(`https?://\S+`).FindString(pac) // of which the file tells people
	_, err := b.visit(door)                                    // nothing is there
	asked := b.challenges
	if asked == 0 {
		t.Errorf("the hidden host does not ask: %v", err)
	}
	for _, host := range []string{originName, originIDN} {
		got, err := b.visit("http://" + run.origin.at(host) + "/page")
		if err != nil || strings.TrimSpace(got) != strings.TrimSpace(page) {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
	b.moveBulk()
	if b.challenges != asked {
		t.Errorf("it was asked %d times more", b.challenges-asked)
	}
}

// moveBulk gets the bytes from the origin and sends them back.
func (b *browser) moveBulk() {
	b.t.Helper()
	b.patience = bulkLimit
	got := b.evaluate(fmt.Sprintf("fetch('/bytes?n=%d').then(r => r.blob()).then(x => fetch('/sum', {method: 'POST', body: x})).then(r => r.text())", bulk))
	if err := sameSum("round trip", got, nil); err != nil {
		b.t.Error(err)
	}
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return host
}
