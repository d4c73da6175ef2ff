package chores

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	// SignatureHeader proves that a post is the mesh's, and when it was made.
	SignatureHeader = "Meshctl-Signature"
	// NoticeHeader is the id of what is posted: the same when it is posted again.
	NoticeHeader = "Meshctl-Notice"
	// maxWait bounds what a receiver may ask for with Retry-After.
	maxWait = time.Hour
)

// Posted is the body of a post.
type Posted struct {
	ID      string            `json:"id"`
	Kind    mesh.NoticeKind   `json:"kind"`
	Created time.Time         `json:"created"`
	Params  map[string]string `json:"params,omitzero"`
	Alert   *mesh.Alert       `json:"alert,omitzero"`
	Event   *mesh.Event       `json:"event,omitzero"`
}

// Sign returns the value of SignatureHeader: "t=<unix time>,v1=<HMAC-SHA-256 of
// "<unix time>.<body>", hex>".
func Sign(secret mesh.Secret, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret.Reveal()))
	mac.Write(append([]byte(t+"."), body...)) // never fails
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// poster makes posts.
type poster struct {
	client *http.Client
	now    func() time.Time
}

func newPoster() *poster {
	return &poster{now: time.Now, client: &http.Client{
		Timeout: postTime,
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: maxAnswer,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		},
		// Whoever answers there must not choose who gets what is signed.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// fate is what is to become of a notice after a post.
type fate struct {
	*controlpb.HookOutcome
	never bool          // the receiver will not take it
	wait  time.Duration // for which the receiver asked; 0: it did not
}

// post makes one post.
func (p *poster) post(ctx context.Context, h *controlpb.Hook, n mesh.Notice) fate {
	out := &controlpb.HookOutcome{Name: h.GetName()}
	body, err := json.Marshal(Posted{n.ID, n.Kind, n.Created, n.Params, n.Alert, n.Event})
	if err != nil {
		return fate{HookOutcome: out, never: true}
	}
	resp, err := p.send(ctx, h, n.ID, body)
	if err != nil {
		out.Result = classify(err)
		return fate{HookOutcome: out}
	}
	out.Status = uint32(resp.status)
	switch {
	case resp.status >= 200 && resp.status < 300:
		out.Done, out.Result = true, controlpb.PingOutcome_DONE
	case resp.status >= 300 && resp.status < 400:
		out.Result = controlpb.PingOutcome_REDIRECT
	default:
		out.Result = controlpb.PingOutcome_STATUS
	}
	return fate{HookOutcome: out, never: refusesForGood(resp.status), wait: resp.wait}
}

// refusesForGood says whether the answer is about this very notice, so that those
// after it should not wait for it.
func refusesForGood(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

type answer struct {
	status int
	wait   time.Duration
}

func (p *poster) send(ctx context.Context, h *controlpb.Hook, id string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.GetUrl(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("User-Agent", "meshctl")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(NoticeHeader, id)
	req.Header.Set(SignatureHeader, Sign(mesh.Secret(h.GetSecret()), p.now(), body))
	resp, err := p.client.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("post: %w", err)
	}
	defer resp.Body.Close()
	// What does not come of the answer is the receiver's matter.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return answer{resp.StatusCode, retryAfter(resp.Header.Get("Retry-After"))}, nil
}

// retryAfter reads seconds; a date, or anything else, is ignored.
func retryAfter(s string) time.Duration {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxWait)
}
