package chores

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/pkg/control"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// desks is a server's outbox: it hands out what waits, in order, and forgets what
// was sent.
type desks struct {
	controlpb.ChoresClient
	mu      sync.Mutex // guards what follows
	waiting []mesh.Notice
	dropped []string
	changed chan struct{}
	opened  int
	break1  bool // the first stream breaks after its first notice
	deny    int  // how often Sent fails
}

func newDesks() *desks { return &desks{changed: make(chan struct{})} }

func (d *desks) queue(hook string, ids ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		d.waiting = append(d.waiting, mesh.Notice{ID: id, To: mesh.ToHook(hook), Kind: mesh.NoticeTest})
	}
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *desks) Sent(_ context.Context, r *controlpb.SentRequest, _ ...grpc.CallOption) (*controlpb.SentResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deny > 0 {
		d.deny--
		return nil, errors.New("away")
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(n mesh.Notice) bool { return n.ID == r.GetId() })
	if r.GetDropped() {
		d.dropped = append(d.dropped, r.GetId())
	}
	return &controlpb.SentResponse{}, nil
}

func (d *desks) left() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting)
}

type handout struct {
	grpc.ClientStream
	ctx    context.Context //nolint:containedctx // it is a stream's
	d      *desks
	seen   map[string]bool
	breaks bool
}

func (d *desks) Notices(ctx context.Context, r *controlpb.NoticesRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[controlpb.Notice], error) {
	if !r.GetHooks() {
		return nil, errors.New("the notices of chats were asked for")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened++
	return &handout{ctx: ctx, d: d, seen: map[string]bool{}, breaks: d.break1 && d.opened == 1}, nil
}

func (h *handout) Recv() (*controlpb.Notice, error) {
	for {
		h.d.mu.Lock()
		changed := h.d.changed
		for _, n := range h.d.waiting {
			if h.seen[n.ID] {
				continue
			}
			if h.breaks && len(h.seen) > 0 {
				h.d.mu.Unlock()
				return nil, io.ErrUnexpectedEOF
			}
			h.seen[n.ID] = true
			h.d.mu.Unlock()
			text, err := json.Marshal(n)
			return &controlpb.Notice{Id: n.ID, Json: text}, err
		}
		h.d.mu.Unlock()
		select {
		case <-changed:
		case <-h.ctx.Done():
			return nil, h.ctx.Err()
		}
	}
}

// receiver takes posts as docs/alerts.md says.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex // guards what follows
	got    []string   // ids, in order
	bad    []string
	answer func(n int, id string) (status int, head map[string]string)
}

const hookSecret = "0123456789abcdef"

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil || !genuine(hookSecret, req.Header.Get(SignatureHeader), body, time.Now()) {
			r.bad = append(r.bad, req.Header.Get(SignatureHeader))
		}
		var p Posted
		if err := json.Unmarshal(body, &p); err != nil || p.ID != req.Header.Get(NoticeHeader) {
			r.bad = append(r.bad, string(body))
		}
		status, head := http.StatusOK, map[string]string(nil)
		if r.answer != nil {
			status, head = r.answer(len(r.got), p.ID)
		}
		for k, v := range head {
			w.Header().Set(k, v)
		}
		if status < 300 {
			r.got = append(r.got, p.ID)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// genuine is the code of docs/alerts.md.
func genuine(secret, header string, body []byte, now time.Time) bool {
	t, sum, ok := strings.Cut(strings.TrimPrefix(header, "t="), ",v1=")
	at, err := strconv.ParseInt(t, 10, 64)
	if !ok || err != nil || now.Sub(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	want, err := hex.DecodeString(sum)
	return err == nil && hmac.Equal(mac.Sum(nil), want)
}

func TestTheReceiverOfTheDocumentsRefusesWhatIsNotOurs(t *testing.T) {
	src, err := os.ReadFile("hooks_test.go")
	doc, err2 := os.ReadFile("../../docs/alerts.md")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(src), "\nfunc genuine")
	code, _, _ = strings.Cut(code, "\n}\n")
	if !strings.Contains(string(doc), "func genuine"+code+"\n}\n") {
		t.Error("docs/alerts.md has other code than is tested here")
	}
	now, body := time.Now(), []byte(`{"id":"x"}`)
	good := Sign(hookSecret, now, body)
	if !genuine(hookSecret, good, body, now) {
		t.Error("ours is refused")
	}
	for name, ok := range map[string]bool{
		"another body":     genuine(hookSecret, good, []byte(`{"id":"y"}`), now),
		"another secret":   genuine("another-secret-16", good, body, now),
		"an old one":       genuine(hookSecret, good, body, now.Add(time.Hour)),
		"another time":     genuine(hookSecret, strings.Replace(good, "t=", "t=1", 1), body, now),
		"no signature":     genuine(hookSecret, "", body, now),
		"half a signature": genuine(hookSecret, good[:len(good)-2], body, now),
	} {
		if ok {
			t.Errorf("%s is taken", name)
		}
	}
}

// working has a hooker post to these receivers until the test ends.
func working(t *testing.T, d *desks, hooks map[string]string) {
	tell := make(chan *controlpb.HookOutcome)
	h := &hooker{server: d, tell: tell, retry: control.Backoff{Min: 4 * time.Millisecond, Max: 20 * time.Millisecond}}
	o := &controlpb.HooksOrder{}
	for name, url := range hooks {
		o.Hooks = append(o.Hooks, &controlpb.Hook{Name: name, Url: url, Secret: hookSecret})
	}
	heard, end := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(heard)
		for {
			select {
			case <-tell:
			case <-end:
				return
			}
		}
	}()
	h.follow(t.Context(), o)
	h.follow(t.Context(), o) // the same order changes nothing
	t.Cleanup(func() { h.stop(); close(end); <-heard })
}

func some(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%04d", prefix, i))
	}
	return out
}

func TestNoticesArePostedInOrderWhateverHappens(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(n int, id string) (int, map[string]string)
		change func(*desks)
	}{
		"nothing happens": {},
		"every other post fails": {answer: func() func(int, string) (int, map[string]string) {
			odd := false
			return func(int, string) (int, map[string]string) {
				if odd = !odd; odd {
					return http.StatusBadGateway, nil
				}
				return http.StatusOK, nil
			}
		}()},
		"the stream breaks":                     {change: func(d *desks) { d.break1 = true }},
		"the server does not hear what is done": {change: func(d *desks) { d.deny = 5 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, r := newDesks(), newReceiver(t)
			r.answer = c.answer
			if c.change != nil {
				c.change(d)
			}
			want := some("n", 30)
			d.queue("a", want[:20]...)
			working(t, d, map[string]string{"a": r.URL})
			until(t, "half is there", func() bool { return len(r.ids()) >= 20 })
			d.queue("a", want[20:]...)
			until(t, "all is settled", func() bool { return d.left() == 0 })
			if got := r.ids(); !slices.Equal(got, want) || len(r.bad) > 0 {
				t.Errorf("got %v, bad %v", got, r.bad)
			}
		})
	}
}

func TestAReceiverThatDoesNotAnswerKeepsNoOtherWaiting(t *testing.T) {
	d, well, ill := newDesks(), newReceiver(t), newReceiver(t)
	ill.answer = func(int, string) (int, map[string]string) { return http.StatusInternalServerError, nil }
	d.queue("ill", some("i", 10)...)
	d.queue("well", some("w", 10)...)
	working(t, d, map[string]string{"ill": ill.URL, "well": well.URL})
	until(t, "the other is served", func() bool { return d.left() == 10 })
}

func TestWhatAReceiverRefusesForGoodIsGivenUp(t *testing.T) {
	d, r := newDesks(), newReceiver(t)
	tries := 0
	r.answer = func(_ int, id string) (int, map[string]string) {
		if id == "b" {
			tries++
			return http.StatusUnprocessableEntity, nil
		}
		return http.StatusNoContent, nil
	}
	d.queue("a", "a", "b", "c")
	working(t, d, map[string]string{"a": r.URL})
	until(t, "all is settled", func() bool { return d.left() == 0 })
	if got := r.ids(); !slices.Equal(got, []string{"a", "c"}) || !slices.Equal(d.dropped, []string{"b"}) || tries != maxRefused {
		t.Errorf("got %v, dropped %v after %d tries", got, d.dropped, tries)
	}
}

// More waits than is kept in memory: what had no room comes with another stream.
func TestMoreNoticesThanThereIsRoomFor(t *testing.T) {
	d, r := newDesks(), newReceiver(t)
	want := some("n", maxLine+60)
	d.queue("a", want...)
	working(t, d, map[string]string{"a": r.URL})
	until(t, "all is settled", func() bool { return d.left() == 0 })
	if got := r.ids(); !slices.Equal(got, want) {
		t.Errorf("%d posts, or another order", len(got))
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	thief := newReceiver(t)
	srv := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	f := newPoster().post(t.Context(), &controlpb.Hook{Name: "a", Url: srv.URL, Secret: hookSecret}, mesh.Notice{ID: "x"})
	if f.GetDone() || f.GetResult() != controlpb.PingOutcome_REDIRECT || len(thief.ids()) > 0 {
		t.Errorf("%v", f.HookOutcome)
	}
}

func TestHowPostsAreJudged(t *testing.T) {
	for _, c := range []struct {
		status int
		after  string
		done   bool
		never  bool
		wait   time.Duration
	}{
		{status: 200, done: true}, {status: 204, done: true}, {status: 500}, {status: 404}, {status: 401},
		{status: 413, never: true}, {status: 400, never: true},
		{status: 429, after: "7", wait: 7 * time.Second}, {status: 503, after: "999999", wait: maxWait},
		{status: 503, after: "Wed, 21 Oct 2015 07:28:00 GMT"}, {status: 503, after: "-1"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", c.after)
			w.WriteHeader(c.status)
		}))
		f := newPoster().post(t.Context(), &controlpb.Hook{Name: "a", Url: srv.URL, Secret: hookSecret}, mesh.Notice{ID: "x"})
		srv.Close()
		if f.GetDone() != c.done || f.never != c.never || f.wait != c.wait || int(f.GetStatus()) != c.status {
			t.Errorf("%+v: %v never %v wait %v", c, f.HookOutcome, f.never, f.wait)
		}
	}
}

func TestNothingOfAWebhookIsSaid(t *testing.T) {
	order := (&HooksOrder{Hooks: []Hook{{Name: "a", URL: "https://user:pa55word@hooks.example.net/5ecret-path?token=t0ken", Secret: "5ignature-key-x"}}}).proto()
	said := `panic: Post "https://user:pa55word@hooks.example.net/5ecret-path?token=t0ken": /5ecret-path token=t0ken 5ignature-key-x`
	for _, s := range []string{"pa55word", "5ecret", "t0ken", "5ignature"} {
		if got := hideHooks(order, said); strings.Contains(got, s) {
			t.Errorf("%q has %s", got, s)
		}
	}
	out, ok := hookOutcomeOf(&controlpb.HookOutcome{Name: "a", Result: controlpb.PingOutcome_STATUS, Status: 502, Failures: 3}, order)
	if !ok || out.Word != "status" || out.Reason != "the answer was HTTP status 502" || out.Failures != 3 {
		t.Errorf("%+v", out)
	}
	if _, ok := hookOutcomeOf(&controlpb.HookOutcome{Name: "b"}, order); ok {
		t.Error("an outcome of a webhook that is not there")
	}
}
