package telegram_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/internal/freeport"
	"github.com/meshctl/meshctl/pkg/bot/bottest"
	"github.com/meshctl/meshctl/pkg/bot/telegram"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/qr"
)

// TestTheTokenIsInNoError holds B-03: telebot puts URLs, and so the token, into
// errors, and Go those of a proxy. None of it comes out.
func TestTheTokenIsInNoError(t *testing.T) {
	api := bottest.New(t)
	api.User(7, "Ann", "en")
	redirect := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere.invalid"+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(redirect.Close)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(w, "cannot reach ", r.URL)
	}))
	t.Cleanup(echo.Close)
	token := api.Token().Reveal()
	png := picture(t)
	var wg sync.WaitGroup
	// What fails is tried again for as long as there is time.
	short, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	for name, s := range map[string]telegram.Settings{
		"nobody there":            {APIs: []string{"http://" + freeport.Addr(t)}},
		"no such name":            {APIs: []string{"http://nothing.invalid"}},
		"a redirect":              {APIs: []string{redirect.URL}},
		"a page that repeats it":  {APIs: []string{echo.URL}},
		"a proxy that is not":     {APIs: []string{api.URL}, Proxy: mesh.Secret("http://user:pa55word@" + freeport.Addr(t))},
		"a SOCKS proxy, likewise": {APIs: []string{api.URL}, Proxy: mesh.Secret("socks5://user:pa55word@" + freeport.Addr(t))},
	} {
		s.Token = mesh.Secret(token)
		c, err := telegram.New(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		check := func(what, text string) {
			for _, secret := range []string{token, token[5:], "pa55word", "elsewhere"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s: %s: %s", name, what, text)
				}
			}
		}
		for what, call := range map[string]func() error{
			"send":   func() error { _, err := c.Send(short, 7, telegram.Message{Text: "x"}); return err },
			"edit":   func() error { _, err := c.Edit(short, 8, 1, telegram.Message{Text: "x"}); return err },
			"delete": func() error { return c.Delete(short, 9, 1) },
			"answer": func() error { return c.Answer(short, "x", "y") },
			"photo":  func() error { _, err := c.Photo(short, 10, png, telegram.Message{}); return err },
			"document": func() error {
				_, err := c.Document(short, 11, "a.txt", []byte("x"), telegram.Message{})
				return err
			},
			"commands": func() error { return c.SetCommands(short, 0, "", nil) },
		} {
			wg.Go(func() {
				err := call()
				if err == nil {
					t.Errorf("%s: %s: no error", name, what)
				}
				for ; err != nil; err = errors.Unwrap(err) {
					check(what, fmt.Sprintf("%v %+v %#v", err, err, err))
				}
				check("state and settings", fmt.Sprintf("%+v %#v", c.State(), s))
			})
		}
	}
	wg.Wait()
	for _, err := range []error{
		second(telegram.New(t.Context(), telegram.Settings{Token: mesh.Secret(token), APIs: []string{"ftp://x"}})),
		second(telegram.New(t.Context(), telegram.Settings{Token: mesh.Secret(token), Proxy: "http://user:pa55word@:bad"})),
		second(telegram.New(t.Context(), telegram.Settings{Token: mesh.Secret(token), Proxy: "ftp://user:pa55word@x"})),
		second(telegram.New(t.Context(), telegram.Settings{})),
	} {
		if mesh.Kind(err) != mesh.ErrInvalid || strings.Contains(err.Error(), "pa55word") || strings.Contains(err.Error(), token) {
			t.Errorf("%v", err)
		}
	}
}

func picture(t *testing.T) []byte {
	t.Helper()
	code, err := qr.New("x")
	if err != nil {
		t.Fatal(err)
	}
	png, err := code.PNG(4)
	if err != nil {
		t.Fatal(err)
	}
	return png
}

func second(_ *telegram.Client, err error) error { return err }

// TestAProxyIsUsed, with its password.
func TestAProxyIsUsed(t *testing.T) {
	api := bottest.New(t)
	user := api.User(7, "Ann", "en")
	var mu sync.Mutex
	var auth string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		auth = r.Header.Get("Proxy-Authorization")
		mu.Unlock()
		api.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	c, err := telegram.New(t.Context(), telegram.Settings{
		Token: api.Token(), APIs: []string{"http://api.invalid"},
		Proxy: mesh.Secret(strings.Replace(proxy.URL, "http://", "http://user:pa55word@", 1)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Send(t.Context(), 7, telegram.Message{Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if auth == "" || user.Last().Plain != "hello" {
		t.Errorf("authorization %q, message %q", auth, user.Last().Plain)
	}
}

// TestWhatIsSentArrives: each kind of message, through the real library.
func TestWhatIsSentArrives(t *testing.T) {
	api := bottest.New(t)
	user := api.User(7, "Ann", "en")
	c, err := telegram.New(t.Context(), telegram.Settings{Token: api.Token(), APIs: []string{api.URL}, PerChat: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	keys := [][]telegram.Button{{{Text: "One", Data: "1"}, {Text: "Site", URL: "https://example.net"}}}
	png := picture(t)
	text, err := c.Send(t.Context(), 7, telegram.Message{Text: "<b>a</b>", Keyboard: keys})
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := c.Edit(t.Context(), 7, text, telegram.Message{Text: "b", Keyboard: keys}); !shown || err != nil {
		t.Fatal(shown, err)
	}
	if _, err := c.Photo(t.Context(), 7, png, telegram.Message{Text: "<i>p</i>", Keyboard: keys}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Document(t.Context(), 7, "all.txt", []byte("all"), telegram.Message{Text: "d"}); err != nil {
		t.Fatal(err)
	}
	gone, err := c.Send(t.Context(), 7, telegram.Message{Text: "gone", Silent: true})
	if err == nil {
		err = c.Delete(t.Context(), 7, gone)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetCommands(t.Context(), 7, "", []telegram.Command{{Name: "start", Description: "Begin"}}); err != nil {
		t.Fatal(err)
	}
	want := `sent #1
  | <b>a</b>
  [One] [Site]
edited #1
  | b
  [One] [Site]
sent #2 photo
  | <i>p</i>
  [One] [Site]
sent #3 all.txt
  | d
sent #4
  | gone
deleted #4
`
	if got := user.Transcript(0); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := api.Commands("7", ""); len(got) != 1 || got[0] != "start" {
		t.Errorf("commands are %v", got)
	}
	user.Block(true)
	if _, err := c.Send(t.Context(), 7, telegram.Message{Text: "x"}); telegram.FailureOf(err) != telegram.Gone {
		t.Errorf("to who does not want it: %v", err)
	}
}

// TestOfTwoPollersOneIsToldSo, at real sockets: B-09.
func TestOfTwoPollersOneIsToldSo(t *testing.T) {
	api := bottest.New(t)
	ann := api.User(7, "Ann", "en")
	settings := telegram.Settings{Token: api.Token(), APIs: []string{api.URL}, Patience: time.Nanosecond}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	clients := []*telegram.Client{}
	for range 2 {
		c, err := telegram.New(ctx, settings)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
		wg.Go(func() { c.Poll(ctx, func(u telegram.Update) { u.Done() }) })
	}
	api.Wait(t, "one is told of the other", func() bool {
		return clients[0].State().Failure == telegram.Conflict || clients[1].State().Failure == telegram.Conflict
	})
	ann.Write("hello")
	api.Settle(t)
}
