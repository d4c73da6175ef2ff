package chores

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// askTime bounds one ask, the start of the child included; a caller with less time
	// is answered askMargin before that ends, so that it hears why.
	askTime   = 45 * time.Second
	askMargin = 2 * time.Second
	// maxAsks is how many there may be at once.
	maxAsks = 8
)

// question is an ask that waits for its answer.
type question struct {
	ask    *controlpb.KubeAsk
	answer chan kube.Answer // takes one
}

// AskKube has the child of this server ask a cluster, whoever leads. That the
// cluster does not answer, or not well, is an answer. It returns ErrUnavailable
// when the child gives none.
func (f *Foreman) AskKube(ctx context.Context, a kube.Ask) (kube.Answer, error) {
	f.begin()
	objects, err := objectsProto(a.Objects)
	if err != nil {
		return kube.Answer{}, err
	}
	q := &question{
		ask:    &controlpb.KubeAsk{Api: apiProto(a.API), Kind: string(a.Kind), Mesh: string(a.Mesh), Cluster: string(a.Cluster), Objects: objects},
		answer: make(chan kube.Answer, 1),
	}
	if !f.put(q) {
		return kube.Answer{}, fmt.Errorf("chores: ask a cluster: %d are asked already: %w", maxAsks, mesh.ErrUnavailable)
	}
	defer f.set(func() {
		delete(f.asking, q.ask.GetId())
		f.askAll()
	})
	most := askFor(ctx)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	select {
	case out := <-q.answer:
		return out, nil
	case <-ctx.Done():
		return kube.Answer{}, mesh.WithHint(fmt.Errorf("chores: ask a cluster: no answer of the API at %s within %v: %w", a.API.Server, most.Round(time.Second), mesh.ErrUnavailable),
			"the cluster is slow, or far, or lets packets vanish; a larger --timeout waits longer")
	}
}

// askFor is how long whoever asks can wait.
func askFor(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return askTime
	}
	left := time.Until(end)
	return min(askTime, max(left-askMargin, left/2))
}

// put has a question asked; false when there are too many.
func (f *Foreman) put(q *question) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asking) >= maxAsks {
		return false
	}
	if f.asking == nil {
		f.asking = map[uint64]*question{}
	}
	f.asked++
	q.ask.Id = f.asked
	f.asking[f.asked] = q
	f.hire()
	f.askAll()
	return true
}

// askAll tells the child what is asked now. Callers hold f.mu.
func (f *Foreman) askAll() {
	var asks []*controlpb.KubeAsk
	for _, id := range slices.Sorted(maps.Keys(f.asking)) {
		asks = append(asks, f.asking[id].ask)
	}
	f.desk.ask(asks, time.Now())
}

// Answer takes the answer to an ask.
func (f *Foreman) Answer(_ context.Context, r *controlpb.KubeAnswer) (*controlpb.AnswerResponse, error) {
	f.mu.Lock()
	q := f.asking[r.GetId()]
	f.mu.Unlock()
	if q == nil {
		return &controlpb.AnswerResponse{}, nil // nobody waits for it any more
	}
	out, ok := kubeAnswerOf(r.GetJson(), q.ask)
	if !ok {
		return nil, fmt.Errorf("chores: answer of a cluster: not one, or too long: %w", mesh.ErrInvalid)
	}
	select {
	case q.answer <- out:
	default: // it was answered before
	}
	return &controlpb.AnswerResponse{}, nil
}

// hideAsks takes the credentials of all asks out of a text.
func (f *Foreman) hideAsks(s string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.asking {
		s = conceal(s, q.ask.GetApi().GetCredential())
	}
	return s
}
