package subs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/subscription"
	"github.com/meshctl/meshctl/pkg/subscription/page"
)

// maxSecret is more than any secret of ours has.
const maxSecret = 128

// Outcomes of requests, as metrics name them.
const (
	outcomeServed   = "served"
	outcomeSame     = "not_modified"
	outcomeUnknown  = "unknown"
	outcomeMethod   = "bad_method"
	outcomeLimit    = "limited"
	outcomeInternal = "internal"
)

// answer is what every request gets. Whoever has no secret that is good now gets
// the same, whatever he asks for.
func (s *Service) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.count(outcomeMethod, "")
		plain(w, http.StatusMethodNotAllowed, "Allow", "GET, HEAD")
		return
	}
	now := s.now()
	secret, format := request(r)
	d, ok := s.index.find(secret)
	var p subscription.Profile
	var err error
	if ok {
		p, err = s.profile(d, now)
	}
	switch {
	case !ok || mesh.Kind(err) == mesh.ErrNotFound:
		s.miss(w, r, now)
	case err != nil:
		s.fail(w, "", err)
	case !s.limits.fetched(d.ID, now):
		s.count(outcomeLimit, "")
		plain(w, http.StatusTooManyRequests, "Retry-After", "60")
	default:
		s.serve(w, r, found{device: d.ID, secret: secret, format: format, profile: p})
	}
}

// miss answers who has no good secret.
func (s *Service) miss(w http.ResponseWriter, r *http.Request, now time.Time) {
	if !s.limits.missed(r.RemoteAddr, now) {
		s.count(outcomeLimit, "")
		plain(w, http.StatusTooManyRequests, "Retry-After", "60")
		return
	}
	s.count(outcomeUnknown, "")
	plain(w, http.StatusNotFound)
}

// fail answers what is this server's fault. The cause may name the device.
func (s *Service) fail(w http.ResponseWriter, f subscription.Format, err error) {
	s.Log.Error("subscription not made", "reason", mesh.Kind(err))
	s.Log.Debug("subscription not made", "err", err)
	s.count(outcomeInternal, f)
	plain(w, http.StatusServiceUnavailable, "Retry-After", "60")
}

// request reads the secret and the format of /s/<secret>[/<format>]. What is no
// such path has the empty secret, which no device has.
func request(r *http.Request) (mesh.Secret, string) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/s/")
	secret, file, _ := strings.Cut(rest, "/")
	if !ok || len(secret) > maxSecret {
		return "", ""
	}
	if f := r.URL.Query().Get("format"); f != "" {
		return mesh.Secret(secret), f
	}
	format, _, _ := strings.Cut(file, ".") // some apps want a name that ends in .yaml or .pac
	return mesh.Secret(secret), format
}

// found is a request whose secret is good.
type found struct {
	device  mesh.DeviceID
	secret  mesh.Secret
	format  string
	profile subscription.Profile
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request, f found) {
	cfg := s.State.Config()
	link := cmp.Or(cfg.SubscriptionURL(f.secret), "https://"+string(cfg.Subscription.Name)+"/s/"+f.secret.Reveal())
	if f.profile.PageURL == "" {
		f.profile.PageURL = link
	}
	choice := subscription.Rules{Agents: cfg.Subscription.Agents}.Choose(r.UserAgent(), r.Header.Get("Accept"), f.format)
	d, err := s.document(r, f, choice, link)
	if err != nil {
		s.fail(w, choice.Format, err)
		return
	}
	s.write(w, r, f, choice, d)
}

func (s *Service) write(w http.ResponseWriter, r *http.Request, f found, choice subscription.Choice, d *document) {
	h := w.Header()
	maps.Copy(h, subscription.Headers(f.profile, choice))
	maps.Copy(h, d.header)
	h.Set("Content-Type", d.body.ContentType)
	h.Set("Etag", d.etag)
	h.Set("Vary", "User-Agent, Accept, Accept-Language")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Subscription-As-Of", f.profile.AsOf.UTC().Format(time.RFC3339))
	outcome := outcomeServed
	if r.Header.Get("If-None-Match") == d.etag {
		outcome = outcomeSame
	}
	s.count(outcome, choice.Format)
	// Conditions and HEAD are its matter. The zero time leaves Last-Modified out.
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.body.Data))
}

// document makes the answer, unless it was made of the same before.
func (s *Service) document(r *http.Request, f found, choice subscription.Choice, link string) (*document, error) {
	f.profile.TrustsCA = r.URL.Query().Get("ca") == "installed"
	k := docKey{device: f.device, format: choice.Format, trusts: f.profile.TrustsCA}
	if choice.Format == subscription.FormatHTML {
		return pageFor(r, f, link)
	}
	if d, ok := s.cache.get(k, f.profile); ok {
		return d, nil
	}
	body, err := subscription.Render(choice.Format, f.profile)
	if err != nil {
		return nil, err
	}
	d := &document{made: ageless(f.profile), body: body, etag: etagOf(body.Data)}
	s.cache.put(k, d)
	return d, nil
}

// pageFor makes the page, which is in a language and holds a picture: it is asked
// for seldom, and not kept.
func pageFor(r *http.Request, f found, link string) (*document, error) {
	body, header, err := page.Render(f.profile, page.Request{
		Link: link, Language: r.URL.Query().Get("lang"), Accept: r.Header.Get("Accept-Language"),
	})
	return &document{body: body, header: header, etag: etagOf(body.Data)}, err
}

// etagOf is of what is answered, so that it is the same at every server.
func etagOf(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`
}

func (s *Service) count(outcome string, f subscription.Format) {
	s.metrics.answers.WithLabelValues(outcome, string(f)).Inc()
}
