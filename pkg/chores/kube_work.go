package chores

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/kube/client"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// kuber keeps clusters while it is told to, each by itself.
type kuber struct {
	tell chan<- *controlpb.KubeOutcome
	jobs map[string]*kubeJob
}

// kubeJob is one cluster.
type kubeJob struct {
	order  *controlpb.KubeWork
	keeper client.Keeper
	end    context.CancelFunc
	done   chan struct{} // closed when it has ended
}

// follow does as ordered from now on. A cluster whose order is the same goes on,
// and one of another order goes on with that. What is not ordered any more has
// ended when follow returns.
func (k *kuber) follow(ctx context.Context, o *controlpb.KubeOrder) {
	wanted := map[string]*controlpb.KubeWork{}
	for _, w := range o.GetClusters() {
		wanted[w.GetCluster()] = w
	}
	k.stop(func(id string) bool { return wanted[id] == nil })
	for id, w := range wanted {
		j := k.jobs[id]
		if j != nil && proto.Equal(j.order, w) {
			continue
		}
		work, err := workOf(w)
		if err != nil {
			kubeLog(id).Error("order not understood", "err", err)
			continue
		}
		if j == nil {
			j = k.begin(ctx, id)
		}
		j.order = w
		j.keeper.Set(work)
	}
}

func kubeLog(id string) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("object", "kube/"+id)
}

func (k *kuber) begin(ctx context.Context, id string) *kubeJob {
	ctx, end := context.WithCancel(ctx)
	j := &kubeJob{end: end, done: make(chan struct{})}
	j.keeper.Report = func(o kube.Observation) { k.report(ctx, id, o) }
	if k.jobs == nil {
		k.jobs = map[string]*kubeJob{}
	}
	k.jobs[id] = j
	go func() {
		defer close(j.done)
		j.keeper.Run(ctx)
	}()
	return j
}

// stop ends the jobs that are to end, all at once, and waits for them.
func (k *kuber) stop(which func(id string) bool) {
	var ended []string
	for id, j := range k.jobs {
		if which(id) {
			j.end()
			ended = append(ended, id)
		}
	}
	for _, id := range ended {
		<-k.jobs[id].done
		delete(k.jobs, id)
	}
}

func (k *kuber) stopAll() { k.stop(func(string) bool { return true }) }

// report tells the server how a cluster is.
func (k *kuber) report(ctx context.Context, id string, o kube.Observation) {
	text, err := observationJSON(o)
	if err != nil || len(text) > maxKubeJSON {
		text, err = json.Marshal(kube.Observation{At: o.At, Mark: o.Mark, Failure: kube.Other, Detail: "what is to be said of the cluster is too much"})
	}
	if err != nil {
		return // a time out of all bounds: not worth a word
	}
	select {
	case k.tell <- &controlpb.KubeOutcome{Cluster: id, Release: o.Release, Json: text}:
	case <-ctx.Done():
	}
}

// observationJSON is an observation that fits, if need be with fewer pods described.
func observationJSON(o kube.Observation) ([]byte, error) {
	for {
		text, err := json.Marshal(o)
		if err != nil || len(text) <= maxKubeJSON || len(o.Pods) == 0 {
			return text, err
		}
		keep := len(o.Pods) / 2
		o.More = slices.Clone(o.More)
		for _, p := range o.Pods[keep:] {
			o.More = append(o.More, p.UID)
		}
		o.Pods = o.Pods[:keep]
	}
}

// asker answers asks about clusters.
type asker struct {
	server controlpb.ChoresClient
	asks   map[uint64]context.CancelFunc // those that are asked
	wg     sync.WaitGroup
}

// follow asks what is new, and gives up what nobody asks any more.
func (a *asker) follow(ctx context.Context, asks []*controlpb.KubeAsk) {
	if a.asks == nil {
		a.asks = map[uint64]context.CancelFunc{}
	}
	wanted := map[uint64]bool{}
	for _, q := range asks {
		wanted[q.GetId()] = true
		if a.asks[q.GetId()] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		a.asks[q.GetId()] = cancel
		a.wg.Go(func() { a.answer(ctx, q) })
	}
	for id, cancel := range a.asks {
		if !wanted[id] {
			cancel()
			delete(a.asks, id)
		}
	}
}

func (a *asker) stop() {
	a.follow(context.Background(), nil)
	a.wg.Wait()
}

func (a *asker) answer(ctx context.Context, q *controlpb.KubeAsk) {
	log := kubeLog(q.GetCluster())
	objects, err := objectsOf(q.GetObjects())
	if err != nil {
		log.Error("ask not understood", "err", err)
		return
	}
	out := client.Ask(ctx, kube.Ask{Kind: kube.AskKind(q.GetKind()), API: apiOf(q.GetApi()), Mesh: mesh.ID(q.GetMesh()), Cluster: mesh.KubeID(q.GetCluster()), Objects: objects})
	if ctx.Err() != nil {
		return // nobody waits for it
	}
	text, err := answerJSON(out)
	if err == nil {
		bounded, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		_, err = a.server.Answer(bounded, &controlpb.KubeAnswer{Id: q.GetId(), Json: text})
	}
	if err != nil && ctx.Err() == nil {
		log.Error("ask not answered", "err", err)
	}
}

// answerJSON is an answer that fits; of a plan that does not, without what exactly
// would change.
func answerJSON(out kube.Answer) ([]byte, error) {
	text, err := json.Marshal(out)
	if err == nil && len(text) > maxKubeJSON {
		for i := range out.Changes {
			out.Changes[i].Diff = ""
		}
		text, err = json.Marshal(out)
	}
	return text, err
}

func apiOf(a *controlpb.KubeAPI) kube.API {
	return kube.API{
		Server: a.GetServer(), CA: a.GetCa(), ServerName: a.GetServerName(), Auth: mesh.KubeAuth(a.GetAuth()),
		Credential: mesh.Secret(a.GetCredential()), Namespace: a.GetNamespace(),
	}
}

func workOf(w *controlpb.KubeWork) (kube.Work, error) {
	objects, err := objectsOf(w.GetObjects())
	return kube.Work{
		Cluster: mesh.KubeID(w.GetCluster()), API: apiOf(w.GetApi()), Mesh: mesh.ID(w.GetMesh()), Objects: objects, Release: w.GetRelease(), Mark: w.GetMark(),
		Epoch: kube.Epoch{Mesh: w.GetEpoch().GetMesh(), Leader: w.GetEpoch().GetLeader()},
	}, err
}

func objectsOf(in [][]byte) ([]kube.Object, error) {
	out := make([]kube.Object, len(in))
	for i, text := range in {
		var err error
		if out[i], err = kube.Decode(text); err != nil {
			return nil, err
		}
	}
	return out, nil
}
