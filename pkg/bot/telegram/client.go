package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	tele "gopkg.in/telebot.v3"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Settings are what a Client needs to know.
type Settings struct {
	Token mesh.Secret
	APIs  []string    // ParseAPI, in order of preference; none: PublicAPI
	Proxy mesh.Secret // ParseProxy
	// PerChat is how many messages a second a chat gets in the long run; 0: one,
	// which is what Telegram takes.
	PerChat float64
	// Patience is how long a conflict is taken for what is left of the last
	// poller's time; 0: 90 s.
	Patience time.Duration
	// Changed is called with every change of the state, from any goroutine. It must
	// not wait. nil: nobody is told.
	Changed func(State)
}

// Client is the bot as the API knows it. Make one with New.
type Client struct {
	settings Settings
	bot      *tele.Bot
	at       *transport
	pace     *pace

	mu    sync.Mutex // guards state
	state State
}

// New returns a client whose calls end with ctx. It calls nobody yet.
func New(ctx context.Context, s Settings) (*Client, error) {
	if s.Token == "" {
		return nil, fmt.Errorf("telegram: no token: %w", mesh.ErrInvalid)
	}
	if s.Patience == 0 {
		s.Patience = 90 * time.Second
	}
	if len(s.APIs) == 0 {
		s.APIs = []string{PublicAPI}
	}
	s.APIs = slices.Clone(s.APIs)
	for i, text := range s.APIs {
		api, err := ParseAPI(text)
		if err != nil {
			return nil, err
		}
		s.APIs[i] = api
	}
	proxy, err := ParseProxy(s.Proxy)
	if err != nil {
		return nil, err
	}
	c := &Client{settings: s, at: newTransport(ctx, s.Token, s.APIs, proxy), pace: newPace(s.PerChat)}
	c.bot, err = tele.NewBot(tele.Settings{
		URL: innerURL, Token: "-", Offline: true, Synchronous: true, Poller: noPoller{},
		OnError: func(error, tele.Context) {},
		Client:  &http.Client{Transport: c.at, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	})
	if err != nil {
		return nil, c.plain(err)
	}
	return c, nil
}

// Close ends idle connections.
func (c *Client) Close() {
	if t, ok := c.at.inner.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// noPoller is in the place of telebot's, which is never started.
type noPoller struct{}

func (noPoller) Poll(*tele.Bot, chan tele.Update, chan struct{}) {}

// call makes one call, and decodes what comes back into result when there is one.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := c.bot.Raw(method, params)
	if err != nil {
		return c.plain(err)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(data, &struct {
		Result any `json:"result"`
	}{result}); err != nil {
		return &Error{Failure: Server, Description: "the answer is not what was asked for"}
	}
	return nil
}

// plain reduces what telebot says to what is ours.
func (c *Client) plain(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Failure: Server, Description: "the answer is not what was asked for"}
}

// Username of the bot; "" while it is not known.
func (c *Client) Username() string { return c.State().Username }
