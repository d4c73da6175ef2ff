package chores

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Outbox is where notices wait until the child has sent them.
type Outbox interface {
	// Hand gives put what waits for webhooks, or for chats, in the order of writing,
	// and then what comes, each once, until ctx or the office ends.
	Hand(ctx context.Context, hooks bool, put func(mesh.Notice) error) error
	// Sent takes note that a notice was sent, with the number of the message in the
	// chat, or that it never will be.
	Sent(ctx context.Context, id string, message int64, dropped bool) error
}

var errNoOutbox = fmt.Errorf("chores: notices are not this child's to send now: %w", mesh.ErrDenied)

// Notices hands the child what it is to send.
func (f *Foreman) Notices(r *controlpb.NoticesRequest, to controlpb.Chores_NoticesServer) error {
	if f.Outbox == nil || !f.leading() {
		return errNoOutbox
	}
	return f.Outbox.Hand(to.Context(), r.GetHooks(), func(n mesh.Notice) error {
		text, err := json.Marshal(n)
		if err != nil {
			return fmt.Errorf("chores: hand out a notice: %w", err)
		}
		return to.Send(&controlpb.Notice{Id: n.ID, Json: text})
	})
}

// Sent takes note of what became of a notice.
func (f *Foreman) Sent(ctx context.Context, r *controlpb.SentRequest) (*controlpb.SentResponse, error) {
	if f.Outbox == nil {
		return nil, errNoOutbox
	}
	return &controlpb.SentResponse{}, f.Outbox.Sent(ctx, r.GetId(), r.GetMessage(), r.GetDropped())
}

func (f *Foreman) leading() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leads
}
