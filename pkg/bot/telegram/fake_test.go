package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "4711:s3cret-t0ken-of-the-bot"

// line is what is in the place of the network, where time is not real.
type line struct {
	mu sync.Mutex // guards what is below, and is held while answer runs
	// answer is how a call goes: a status and a body, or an error.
	answer func(asked) (int, string, error)
	calls  []asked
}

type asked struct {
	method, host string
	params       map[string]any
	at           time.Time
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	a := asked{method: path.Base(r.URL.Path), host: r.URL.Host, at: time.Now()}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if len(body) > 0 && body[0] == '{' {
		if err := json.Unmarshal(body, &a.params); err != nil {
			return nil, err
		}
	}
	var code int
	var text string
	l.with(func() {
		l.calls = append(l.calls, a)
		code, text, err = l.answer(a)
	})
	if seconds, ok := a.params["timeout"].(float64); ok && text == nothing {
		time.Sleep(time.Duration(seconds) * time.Second)
	}
	if errors.Is(err, errHangs) {
		<-r.Context().Done()
		err = r.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}, Request: r}, nil
}

// errHangs has a call open until somebody gives up.
var errHangs = errors.New("hangs")

// with does something while no call is answered.
func (l *line) with(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *line) of(method string) []asked {
	var out []asked
	l.with(func() {
		for _, a := range l.calls {
			if a.method == method {
				out = append(out, a)
			}
		}
	})
	return out
}

func newClient(ctx context.Context, t *testing.T, l *line, s Settings) *Client {
	t.Helper()
	s.Token = mesh.Secret(token)
	c, err := New(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	c.at.inner = l
	return c
}

// nothing is the answer when nothing happened, after as long as was asked for.
const nothing = `{"ok":true,"result":[]}`

// quiet answers that all is well, and nothing happened.
func quiet(a asked) (int, string, error) {
	switch a.method {
	case "getMe":
		return 200, `{"ok":true,"result":{"id":1,"is_bot":true,"first_name":"Mesh","username":"mesh_bot"}}`, nil
	case "getUpdates":
		return 200, nothing, nil
	}
	return 200, `{"ok":true,"result":{"message_id":7}}`, nil
}
