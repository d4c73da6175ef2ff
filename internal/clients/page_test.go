//go:build clients

package clients

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/dev"
)

// inspect returns what is wrong with a page for people who see little, have large
// fingers or a small screen: one fault a line.
//
//go:embed testdata/inspect.js
var inspect string

// The page for people, as the service serves it, in both languages, schemes and
// sizes. With MESHCTL_CLIENTS_PICTURES pictures are left in that folder.
func TestThePageForPeople(t *testing.T) {
	m := theMesh(t)
	s := subscribe(t, "page", dev.CellName)
	b := newBrowser(t, m.SubscriptionCAFile(), "function FindProxyForURL() { return 'DIRECT' }",
		fmt.Sprintf("MAP %s %s", dev.SubscriptionName, hostOf(t, m.EntryAddresses[0])))
	b.call("Log.enable", nil, nil)
	b.call("Runtime.enable", nil, nil)
	for _, lang := range []string{"en", "ru"} {
		for _, scheme := range []string{"light", "dark"} {
			for name, width := range map[string]int{"phone": 360, "desktop": 1280} {
				t.Run(lang+" "+scheme+" "+name, func(t *testing.T) {
					b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
					b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
					text, err := b.visit(s.link + "?lang=" + lang + "&format=html")
					if err != nil || !strings.Contains(text, s.link) {
						t.Fatalf("%v: %s", err, text)
					}
					if faults := b.evaluate(inspect); faults != "" {
						t.Error(faults)
					}
					b.picture(t, strings.Join([]string{lang, scheme, name}, "-"))
				})
			}
		}
	}
	for _, c := range b.complaints {
		t.Error(c)
	}
	text, err := b.visit(s.link) // with the User-Agent and Accept of a browser
	if err != nil || !strings.Contains(text, s.link) {
		t.Errorf("a browser gets something else: %v: %s", err, text)
	}
}

// picture leaves one of the whole page.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("MESHCTL_CLIENTS_PICTURES")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}
