package mgmt

import (
	"context"
	"fmt"

	"google.golang.org/grpc/metadata"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// maxUpdate bounds the name of an update.
const maxUpdate = 128

// admitBot finds for whom the child calls, and whether they may now. Its own work
// it does for nobody.
func (g *guard) admitBot(ctx context.Context, method string, r admin.BotRule) (context.Context, error) {
	if r.Standing == "" {
		return ctx, nil
	}
	if g.collecting != nil && g.collecting() {
		return nil, errCollecting // as administrators are
	}
	number, err := mesh.ParseTelegramID(header(ctx, admin.BotUserHeader))
	if err != nil {
		return nil, fmt.Errorf("mgmt: call %s: for whom is not said: %w", method, mesh.ErrDenied)
	}
	update := header(ctx, admin.BotUpdateHeader)
	if r.Changes && (update == "" || len(update) > maxUpdate) {
		return nil, fmt.Errorf("mgmt: call %s: which update asks for it is not said: %w", method, mesh.ErrDenied)
	}
	bounded, cancel := context.WithTimeout(ctx, adminReadTime)
	defer cancel()
	p, err := g.person(bounded, number)
	if err != nil {
		return nil, fmt.Errorf("mgmt: look up a Telegram user: %w: %w", err, mesh.ErrUnavailable)
	}
	who, err := p.As(method, r)
	if err != nil {
		return nil, fmt.Errorf("mgmt: %w", err)
	}
	if r.Changes {
		// Another method of the same update has its own effect, and nobody can use
		// up the updates of somebody else.
		ctx = store.Once(ctx, "bot/"+method+"/"+number.String()+"/"+update)
	}
	return admin.WithCaller(ctx, admin.Caller{Actor: who, Role: p.Role(), Request: newRequestID(), Via: p.Via(), Bot: &p}), nil
}

// header is metadata that is there once, "" otherwise.
func header(ctx context.Context, name string) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if all := md.Get(name); len(all) == 1 {
		return all[0]
	}
	return ""
}
