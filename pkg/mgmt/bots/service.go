// Package bots is a management server's side of the Telegram bot: whom it speaks
// with, what it may do for them, and what people are told. The library, and all
// that comes from Telegram, is in the child process.
//
//	child ── calls of the Admin service, for a Telegram user ──▶ guard ─ Person
//	                                                             handlers here, and adminsvc's
//	child ◀─ Notices ── outbox ◀── events, ends, tokens, operators
//	      ── Sent ────▶
//
// Handlers run on every server. What is to be done once in the mesh is done by the
// holder of the office whose child the bot is.
package bots

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/meshctl/meshctl/internal/ratelimit"
	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/mgmt/adminsvc"
	"github.com/meshctl/meshctl/pkg/store"
)

const (
	// wrongCodes are how many codes that are wrong a user may show in an hour.
	wrongCodes = 5
	// asksPerDay are how often a stranger may ask to join, and maxAsking how many
	// may wait for an answer.
	asksPerDay, maxAsking = 3, 200
	// strangers may have the bot wait for their words that often, all together.
	strangersEvery, strangersBurst = 5 * time.Second, 100
	// helpsPerHour are how often a member may ask for help.
	helpsPerHour = 20
)

// Service has a handler for each method of the bot. Set the fields, then use it.
type Service struct {
	Store *store.Store
	// Admin does what administrators do too.
	Admin  *adminsvc.Service
	Mesh   mesh.ID
	Server mesh.ServerID
	// Connection is how the child reaches Telegram.
	Connection Connection
	// Wake has the order asked for.
	Wake func()
	Log  *slog.Logger
	Now  func() time.Time // nil: time.Now

	once      sync.Once
	wrong     *ratelimit.Limiter[mesh.TelegramID]
	asks      *ratelimit.Limiter[mesh.TelegramID]
	helps     *ratelimit.Limiter[mesh.MemberID]
	strangers *rate.Limiter
	dropped   *prometheus.CounterVec

	mu   sync.Mutex // guards what is below
	term *term      // nil: this server does not lead
}

// Connection is what the bot needs to reach Telegram.
type Connection struct {
	Token mesh.Secret // "": there is no bot here
	APIs  []string    // base URLs, in order of preference
	Proxy mesh.Secret // URL; "": none
}

// Bindings are the handlers, for admin.Serve.
func (s *Service) Bindings() []admin.Binding {
	return []admin.Binding{
		admin.BotWho.Handle(s.who),
		admin.BotLink.Handle(s.link),
		admin.BotUnlink.Handle(s.unlink),
		admin.BotLanguage.Handle(s.language),
		admin.BotExpect.Handle(s.expect),
		admin.BotJoin.Handle(s.join),

		admin.BotOwn.Handle(s.own),
		admin.BotDeviceAdd.Handle(s.deviceAdd),
		admin.BotDeviceLink.Handle(s.deviceLink),
		admin.BotDeviceRotate.Handle(s.deviceRotate),
		admin.BotHelp.Handle(s.help),

		admin.BotAnswer.Handle(s.answer),
		admin.BotGuests.Handle(s.guests),
		admin.BotDecide.Handle(s.decide),
		admin.BotBroadcast.Handle(s.broadcast),
		admin.BotShown.Handle(s.tokenShown),

		admin.BotCodeCreate.Handle(s.codeCreate),
		admin.BotUserList.Handle(s.userList),
		admin.BotUserSet.Handle(s.userSet),
		admin.BotStatusGet.Handle(s.status),
	}
}

func (s *Service) begin() {
	s.once.Do(func() {
		s.wrong = ratelimit.New[mesh.TelegramID](rate.Every(time.Hour/wrongCodes), wrongCodes)
		s.asks = ratelimit.New[mesh.TelegramID](rate.Every(24*time.Hour/asksPerDay), asksPerDay)
		s.helps = ratelimit.New[mesh.MemberID](rate.Every(time.Hour/helpsPerHour), helpsPerHour)
		s.dropped = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "meshctl_notices_dropped_total",
			Help: "Notices that were not sent: too old, or not taken by their recipient."}, []string{"reason"})
		s.strangers = rate.NewLimiter(rate.Every(strangersEvery), strangersBurst)
	})
}

func (s *Service) now() time.Time {
	if s.Now != nil {
		return s.Now().UTC()
	}
	return time.Now().UTC()
}

// change makes one audited transaction in the name of whoever calls.
func (s *Service) change(ctx context.Context, action string, fn func(*store.Tx) error) error {
	c := admin.CallerFrom(ctx)
	_, err := s.Store.Change(ctx, store.By{Actor: c.Actor, Request: c.Request, Via: c.Via}, action, fn)
	return err
}
