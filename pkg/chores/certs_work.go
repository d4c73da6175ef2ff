package chores

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/pkg/acme"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// certifier orders certificates while it is told to.
type certifier struct {
	tell chan<- *controlpb.CertOutcome
	job  *certsJob // nil: none is ordered
	done attempts  // kept from job to job
}

// attempts are, by id, the last attempt that was made.
type attempts map[string]uint64

// follow does as ordered from now on. What is under way goes on while it is
// asked for; otherwise it has ended when follow returns.
func (c *certifier) follow(ctx context.Context, o *controlpb.CertsOrder) {
	if c.job != nil && c.job.change(o) {
		return
	}
	c.stop()
	if o == nil {
		return
	}
	if c.done == nil {
		c.done = attempts{}
	}
	j := &certsJob{order: settingsOf(o), tell: c.tell, woken: make(chan struct{}, 1), done: c.done}
	ctx, j.end = context.WithCancel(ctx)
	j.change(o)
	j.wg.Go(func() { j.run(ctx) })
	c.job = j
}

func (c *certifier) stop() {
	if c.job != nil {
		c.job.end()
		c.job.wg.Wait()
		c.job = nil
	}
}

// certsJob is orders with the same settings. They are made one after the other:
// there are few, and authorities count.
type certsJob struct {
	order *controlpb.CertsOrder // without requests
	tell  chan<- *controlpb.CertOutcome
	woken chan struct{}
	end   context.CancelFunc
	wg    sync.WaitGroup
	done  attempts // of the goroutine of run

	mu       sync.Mutex // guards what follows
	requests []*controlpb.CertRequest
	current  *controlpb.CertRequest
}

// settingsOf is an order without its requests.
func settingsOf(o *controlpb.CertsOrder) *controlpb.CertsOrder {
	out := proto.CloneOf(o)
	out.Requests = nil
	return out
}

// change takes other requests. It returns false when that is another job: with
// other settings, or without what is under way.
func (j *certsJob) change(o *controlpb.CertsOrder) bool {
	if o == nil || !proto.Equal(settingsOf(o), j.order) {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	kept := j.current == nil
	for _, r := range o.GetRequests() {
		kept = kept || proto.Equal(r, j.current)
	}
	if !kept {
		return false
	}
	j.requests = o.GetRequests()
	select {
	case j.woken <- struct{}{}:
	default: // it will look
	}
	return true
}

// next takes up the first request that was not made yet.
func (j *certsJob) next() *controlpb.CertRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.current = nil
	for _, r := range j.requests {
		if j.done[r.GetId()] < r.GetAttempt() {
			j.current = r
			break
		}
	}
	return j.current
}

// finish says that nothing is under way: what has ended may be taken away.
func (j *certsJob) finish() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.current = nil
}

func (j *certsJob) run(ctx context.Context) {
	client, err := newClient(j.order)
	if err == nil {
		defer client.Close()
	}
	for ctx.Err() == nil {
		r := j.next()
		if r == nil {
			select {
			case <-ctx.Done():
			case <-j.woken:
			}
			continue
		}
		out := outcomeOfOrder(ctx, r, client, err)
		if ctx.Err() != nil {
			return // called off: nothing is known of it
		}
		select {
		case j.tell <- out:
			j.done[r.GetId()] = r.GetAttempt()
			j.finish()
		case <-ctx.Done():
		}
	}
}

// outcomeOfOrder makes one order. If a library panics in it, that is how it went.
func outcomeOfOrder(ctx context.Context, r *controlpb.CertRequest, client *acme.Client, err error) (out *controlpb.CertOutcome) {
	out = &controlpb.CertOutcome{Id: r.GetId(), Attempt: r.GetAttempt()}
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "panic in an order: %v\n%s", p, debug.Stack())
			out.Failure, out.Detail = string(acme.Other), "panic"
		}
	}()
	if err == nil {
		err = carryOut(ctx, r, client, out)
	}
	if err != nil {
		out.Chain, out.Failure, out.Detail = nil, string(acme.FailureOf(err)), acme.Detail(err)
		out.RetryNanos = int64(acme.RetryAfter(err))
	}
	return out
}

func carryOut(ctx context.Context, r *controlpb.CertRequest, client *acme.Client, out *controlpb.CertOutcome) (err error) {
	if r.GetName() != "" {
		out.Chain, err = client.Order(ctx, r.GetName(), r.GetRequest())
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, acme.OrderTime)
	defer cancel()
	account, err := client.Register(ctx)
	out.Account, out.Identities = account.URI, account.Identities
	return err
}

// newClient is what the settings describe.
func newClient(o *controlpb.CertsOrder) (*acme.Client, error) {
	key, err := parseAccountKey(o.GetAccountKey())
	if err != nil {
		return nil, err
	}
	d := o.GetDns()
	resolver, err := acme.NewResolver(d.GetResolvers()...)
	if err != nil {
		return nil, err
	}
	client, err := acme.HTTPClient("")
	if err != nil {
		return nil, err
	}
	provider, err := acme.NewProvider(mesh.DNSProvider{
		Kind: mesh.DNSKind(d.GetKind()), Server: d.GetServer(), Zone: d.GetZone(), KeyName: d.GetKeyName(), Algorithm: d.GetAlgorithm(),
	}, mesh.Secret(d.GetCredential()), client)
	if err != nil {
		return nil, err
	}
	return &acme.Client{
		Directory: o.GetDirectory(), Roots: o.GetRoots(), Contact: o.GetContact(),
		External: o.GetExternal(), ExternalKey: mesh.Secret(o.GetExternalKey()), Key: key,
		Resolver: resolver, Provider: provider, Zone: d.GetZone(), AllowMissingCAA: o.GetAllowMissingCaa(),
	}, nil
}

func parseAccountKey(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("chores: account key: not PEM")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("chores: account key: not a key") // the library's words may quote it
	}
	key, ok := k.(crypto.Signer)
	if !ok {
		return nil, errors.New("chores: account key: it cannot sign")
	}
	return key, nil
}
