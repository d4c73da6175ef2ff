//go:build clients

package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browser is a headless Chromium with a profile of its own, driven over a pipe
// (chromedevtools.github.io/devtools-protocol).
type browser struct {
	t       *testing.T
	toIt    io.Writer
	answers chan cdp
	session string
	id      int
	// What it types when a proxy asks, as a person would.
	user, password string
	challenges     int           // how often it was asked
	patience       time.Duration // with an answer
	complaints     []string      // what its console says, where that is on
}

// cdp is a message of the protocol, of either side.
type cdp struct {
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
	raw     []byte
}

// newBrowser starts one that trusts the authorities in caFile and looks names up
// as rules say.
func newBrowser(t *testing.T, caFile, pac, rules string) *browser {
	t.Helper()
	home := t.TempDir()
	trust(t, home, caFile)
	cmd := exec.Command(programs["chromium"], "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-quic",
		"--user-data-dir="+filepath.Join(home, "profile"), "--host-resolver-rules="+rules,
		"--proxy-pac-url=data:application/x-ns-proxy-autoconfig,"+escapePAC(pac), "--remote-debugging-pipe", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home)
	in, toIt := pipe(t)
	fromIt, out := pipe(t)
	cmd.ExtraFiles = []*os.File{in, out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	b := &browser{t: t, toIt: toIt, answers: make(chan cdp, 1000), patience: patience}
	done := make(chan struct{})
	go func() { defer close(done); b.read(fromIt) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
		toIt.Close()
		<-done
		fromIt.Close()
	})
	b.open()
	return b
}

// trust makes the certificate store that Chromium reads.
func trust(t *testing.T, home, caFile string) {
	t.Helper()
	db := filepath.Join(home, ".pki", "nssdb")
	if err := os.MkdirAll(db, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-N", "--empty-password"}, {"-A", "-n", "cell", "-t", "C,,", "-i", caFile}} {
		if text, err := exec.Command(programs["certutil"], append(args, "-d", "sql:"+db)...).CombinedOutput(); err != nil {
			t.Fatalf("certutil %v: %v\n%s", args, err, text)
		}
	}
}

func escapePAC(pac string) string {
	return strings.NewReplacer("%", "%25", "\n", "%0A", "#", "%23", " ", "%20", `"`, "%22").Replace(pac)
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// read takes messages, each of which ends with a zero byte.
func (b *browser) read(r io.Reader) {
	defer close(b.answers)
	d := json.NewDecoder(zeroToSpace{r})
	for {
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return // it has ended
		}
		m := cdp{raw: raw}
		if json.Unmarshal(raw, &m) == nil {
			b.answers <- m
		}
	}
}

type zeroToSpace struct{ io.Reader }

func (z zeroToSpace) Read(p []byte) (int, error) {
	n, err := z.Reader.Read(p)
	for i, c := range p[:n] {
		if c == 0 {
			p[i] = '\n'
		}
	}
	return n, err
}

// open takes hold of a page, and of what asks for credentials.
func (b *browser) open() {
	b.t.Helper()
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.call("Page.enable", nil, nil)
	b.call("Fetch.enable", map[string]any{"handleAuthRequests": true}, nil)
}

func (b *browser) send(method string, params any) int {
	b.t.Helper()
	b.id++
	data, err := json.Marshal(cdp{ID: b.id, Method: method, Session: b.session, Params: params})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.toIt.Write(append(data, 0)); err != nil {
		b.t.Fatalf("chromium: %v", err)
	}
	return b.id
}

// call waits for the answer to a method, and serves events meanwhile.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	id := b.send(method, params)
	b.until(method, func(m cdp) bool {
		if m.ID != id {
			return false
		}
		if m.Error != nil {
			b.t.Fatalf("chromium: %s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return true
	})
}

// until serves events until found says that one is the last.
func (b *browser) until(what string, found func(cdp) bool) {
	b.t.Helper()
	late := time.After(b.patience)
	for {
		select {
		case m, ok := <-b.answers:
			if !ok {
				b.t.Fatalf("chromium ended: %s", what)
			}
			if found(m) {
				return
			}
			b.event(m)
		case <-late:
			b.t.Fatalf("chromium: no end of %s", what)
		}
	}
}

// event lets requests go on, and types the credentials where they are asked for.
func (b *browser) event(m cdp) {
	var e struct {
		Params struct {
			RequestID     string
			AuthChallenge struct{ Source, Realm string }
		}
	}
	if err := json.Unmarshal(m.raw, &e); err != nil {
		b.t.Fatal(err)
	}
	switch m.Method {
	case "Fetch.requestPaused":
		b.send("Fetch.continueRequest", map[string]any{"requestId": e.Params.RequestID})
	case "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown":
		b.complaints = append(b.complaints, string(m.raw))
	case "Fetch.authRequired":
		b.challenges++
		answer := map[string]any{"response": "ProvideCredentials", "username": b.user, "password": b.password}
		b.send("Fetch.continueWithAuth", map[string]any{"requestId": e.Params.RequestID, "authChallengeResponse": answer})
	}
}

// visit opens a page and returns its text, or why it could not.
func (b *browser) visit(url string) (string, error) {
	b.t.Helper()
	var nav struct{ ErrorText string }
	loaded := false
	id := b.send("Page.navigate", map[string]any{"url": url})
	answered := false
	b.until(url, func(m cdp) bool {
		if m.ID == id {
			answered = true
			if err := json.Unmarshal(m.Result, &nav); err != nil {
				b.t.Fatalf("%s: %v", m.raw, err)
			}
		}
		loaded = loaded || m.Method == "Page.loadEventFired"
		if m.ID != id {
			b.event(m)
		}
		return answered && (loaded || nav.ErrorText != "")
	})
	if nav.ErrorText != "" {
		return "", fmt.Errorf("%s: %s", url, nav.ErrorText)
	}
	return b.evaluate("document.body.innerText"), nil
}

// evaluate runs JavaScript, which may be a promise of a text.
func (b *browser) evaluate(expression string) string {
	b.t.Helper()
	var out struct{ Result struct{ Value string } }
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &out)
	return out.Result.Value
}
