package chores

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Bot is the server's side of the Telegram bot: whether there is to be one, and
// how it goes. The child speaks with Telegram, and calls the Admin service for
// those who speak with it; what is sent unasked it gets from an Outbox.
//
// Any method may be called from any goroutine.
type Bot interface {
	// Lead is called whenever this server takes the office, and returns when ctx
	// ends, which is when the office is given back.
	Lead(ctx context.Context) error
	// Order is what the child is to do now; nil: nothing. It waits for nothing.
	// It is asked every two seconds, and after Foreman.Wake.
	Order() *BotOrder
	// Ended takes note of how the bot goes. It waits for nothing.
	Ended(BotOutcome)
}

// BotOrder asks for the bot. With any change all begins anew.
type BotOrder struct {
	Token mesh.Secret
	APIs  []string    // base URLs, in order of preference
	Proxy mesh.Secret // URL; "": none
	Mesh  mesh.ID
	Key   mesh.Secret // what the mesh signs buttons with, beside the token
}

// BotOutcome is how the bot goes.
type BotOutcome struct {
	State    mesh.BotConnection
	Failures int
	Retry    time.Duration
	Username string
	API      int
	// Since the order.
	Ignored, Updates, Sent uint64
}

var (
	botToken = regexp.MustCompile(`^[0-9]{1,20}:[A-Za-z0-9_-]{20,100}$`)
	botName  = regexp.MustCompile(`^[A-Za-z0-9_]{1,32}$`)
)

// ParseBotToken checks a bot's token as Telegram gives it. Errors have nothing of
// it. It returns ErrInvalid.
func ParseBotToken(text mesh.Secret) (mesh.Secret, error) {
	if !botToken.MatchString(text.Reveal()) {
		return "", mesh.WithHint(fmt.Errorf("chores: token of the bot: want NUMBER:LETTERS: %w", mesh.ErrInvalid),
			"copy it from BotFather, and nothing else")
	}
	return text, nil
}

// ParseProxy checks the URL of a proxy. Errors have nothing of it. It returns
// ErrInvalid.
func ParseProxy(text mesh.Secret) (mesh.Secret, error) {
	u, err := url.Parse(text.Reveal())
	if err != nil || u.Hostname() == "" || len(text.Reveal()) > maxURL || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		return "", fmt.Errorf("chores: proxy to Telegram: want a URL of http, https or socks5 with a host, at most %d bytes: %w", maxURL, mesh.ErrInvalid)
	}
	return text, nil
}

func (o *BotOrder) proto() *controlpb.BotOrder {
	if o == nil {
		return nil
	}
	return &controlpb.BotOrder{Token: o.Token.Reveal(), Apis: o.APIs, Proxy: o.Proxy.Reveal(), Mesh: string(o.Mesh), Key: o.Key.Reveal()}
}

var botConnections = map[controlpb.BotOutcome_State]mesh.BotConnection{
	controlpb.BotOutcome_WORKING: mesh.BotWorking, controlpb.BotOutcome_CONFLICT: mesh.BotConflict,
	controlpb.BotOutcome_LIMITED: mesh.BotLimited, controlpb.BotOutcome_TOKEN: mesh.BotToken,
	controlpb.BotOutcome_SERVER: mesh.BotServer, controlpb.BotOutcome_NETWORK: mesh.BotNetwork,
}

// botOutcomeOf checks what the child says.
func botOutcomeOf(o *controlpb.BotOutcome, ordered *controlpb.BotOrder) BotOutcome {
	state, known := botConnections[o.GetState()]
	if !known {
		state = mesh.BotOther
	}
	out := BotOutcome{
		State: state, Failures: int(o.GetFailures()), Retry: time.Duration(o.GetRetryNanos()),
		Ignored: o.GetIgnored(), Updates: o.GetUpdates(), Sent: o.GetSent(),
	}
	if botName.MatchString(o.GetUsername()) {
		out.Username = o.GetUsername()
	}
	if n := int(o.GetApi()); n < len(ordered.GetApis()) {
		out.API = n
	}
	return out
}

// ordersBot returns what the child is told about the bot, nil when it has none.
func (f *Foreman) ordersBot() *controlpb.BotOrder {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.desk.jobs.bot
}

// hideBot takes the secrets of an order out of a text.
func hideBot(o *controlpb.BotOrder, s string) string {
	return conceal(s, o.GetToken(), o.GetProxy(), o.GetKey())
}

// leadBot keeps the server's side at work while this server leads.
func (f *Foreman) leadBot(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.Bot.Lead(ctx); err != nil && ctx.Err() == nil {
			f.Log.Error("work for the bot ended", "err", err, "delay", againTime)
		}
		wait(ctx, againTime)
	}
}
