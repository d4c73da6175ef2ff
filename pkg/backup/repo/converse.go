package repo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// service is the program at the other end.
type service string

const (
	uploadPack  service = "git-upload-pack"
	receivePack service = "git-receive-pack"

	maxAdvertised = 32 << 20 // bytes of references
	agentCap      = "agent=meshctl"
)

// conversation is one with a remote: what it holds, and one question.
//
// go-git's own clients of these protocols fall short here: that for SSH has no
// way to end a handshake and reads the user's configuration, that for https
// holds a whole pack in memory, that for local paths passes on the whole
// environment and runs the hooks of the other repository, and its push walks
// the whole history each time. Their messages and formats serve.
type conversation struct {
	adv *packp.AdvRefs
	// ask sends a question of that size and returns the answer.
	ask func(ctx context.Context, body io.Reader, size int64) (io.Reader, error)
}

// link is a connection to one of the programs.
type link interface {
	// advertised is what it says first.
	advertised() io.Reader
	ask(ctx context.Context, body io.Reader, size int64) (io.Reader, error)
	// said is what it complained about so far.
	said() string
	close() error
}

// errIdle ends a conversation in which nothing moves.
var errIdle = fmt.Errorf("nothing came for too long: %w: %w", context.DeadlineExceeded, mesh.ErrUnavailable)

// converse opens a conversation and hands it to f. It is bounded in time, and
// no error holds the credential.
func (r *Repo) converse(ctx context.Context, rm Remote, s service, f func(context.Context, *conversation) error) error {
	rm, kind, err := rm.check()
	if err != nil {
		return err
	}
	limits := r.opts.Limits
	ctx, stop := context.WithTimeoutCause(ctx, limits.Time, fmt.Errorf("it took more than %v: %w: %w", limits.Time, context.DeadlineExceeded, mesh.ErrUnavailable))
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watch{idle: limits.Idle, timer: time.AfterFunc(limits.Idle, func() { cancel(errIdle) })}
	defer w.timer.Stop()
	err = r.dialogue(ctx, rm, kind, s, w, f)
	if err != nil && ctx.Err() != nil {
		// What broke, broke because it was ended.
		err = fmt.Errorf("repo: %w", context.Cause(ctx))
	}
	return scrub(err, rm)
}

func (r *Repo) dialogue(ctx context.Context, rm Remote, kind mesh.RemoteKind, s service, w *watch, f func(context.Context, *conversation) error) error {
	var l link
	var err error
	switch kind {
	case mesh.RemotePath:
		l, err = r.dialLocal(ctx, rm, s)
	case mesh.RemoteSSH:
		l, err = dialSSH(ctx, rm, s, r.opts.Limits.Idle)
	default:
		l, err = dialHTTP(ctx, rm, s)
	}
	if err != nil {
		return err
	}
	c := &conversation{}
	c.ask = func(ctx context.Context, body io.Reader, size int64) (io.Reader, error) {
		answer, err := l.ask(ctx, &watchReader{body, w}, size)
		if err != nil {
			return nil, withSaid(err, l.said())
		}
		return &watchReader{answer, w}, nil
	}
	if c.adv, err = readAdvertised(&watchReader{l.advertised(), w}); err != nil {
		err = withSaid(err, l.said())
	} else {
		err = f(ctx, c)
	}
	// A folder's git may tidy up now, and says nothing meanwhile.
	w.timer.Stop()
	closed := l.close()
	if err == nil && closed != nil && ctx.Err() != nil {
		err = closed
	}
	return err
}

// readAdvertised reads what a remote holds.
func readAdvertised(rd io.Reader) (*packp.AdvRefs, error) {
	head := &headBuffer{}
	adv := packp.NewAdvRefs()
	limited := &io.LimitedReader{R: rd, N: maxAdvertised}
	err := adv.Decode(io.TeeReader(limited, head))
	line, isLine := errors.AsType[*pktline.ErrorLine](err)
	switch {
	case bytes.Contains(head.b, []byte("object-format=sha256")):
		err := faultf(ReasonFormat, "the remote repository uses SHA-256, which is not understood: %w", mesh.ErrInvalid)
		return nil, mesh.WithHint(err, "make it with: git init --bare --object-format=sha1")
	case err == nil, errors.Is(err, packp.ErrEmptyAdvRefs):
		return adv, nil
	case isLine:
		return nil, faultf(classify(line.Text), "the remote says %s", quote(line.Text))
	case limited.N <= 0:
		return nil, faultf(ReasonLimit, "more than %d bytes of references: %w", maxAdvertised, mesh.ErrInvalid)
	case errors.Is(err, packp.ErrEmptyInput), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, faultf(ReasonConnection, "the remote hung up: %w", mesh.ErrUnavailable)
	case ReasonOf(err) != ReasonOther:
		return nil, err
	default:
		if _, ok := errors.AsType[*packp.ErrUnexpectedData](err); ok || errors.Is(err, pktline.ErrInvalidPktLen) {
			return nil, faultf(ReasonFormat, "the remote does not speak Git: it begins with %s: %w", quote(string(head.b[:min(40, len(head.b))])), mesh.ErrInvalid)
		}
		return nil, faultf(ReasonConnection, "read what the remote holds: %w: %w", err, mesh.ErrUnavailable)
	}
}

// withSaid adds what the program complained about to a connection that broke,
// and the better reason that this gives.
func withSaid(err error, said string) error {
	if said == "" {
		return err
	}
	reason := ReasonOf(err)
	if reason == ReasonConnection || reason == ReasonOther {
		if better := classify(said); better != ReasonOther {
			reason = better
		}
	}
	err = &Fault{Reason: reason, Err: fmt.Errorf("%w (the remote says %s)", err, quote(said))}
	if strings.Contains(said, "dubious ownership") {
		return mesh.WithHint(err, "the folder has to belong to the user that the server runs as")
	}
	return err
}

// classify finds the reason in what a remote says, for people and in English.
func classify(text string) Reason {
	low := strings.ToLower(text)
	for _, c := range []struct {
		reason Reason
		parts  []string
	}{
		{ReasonMissing, []string{"not found", "does not appear to be a git repository", "does not exist", "no such", "not a git repository", "invalid gitfile"}},
		{ReasonAuth, []string{"permission denied", "access denied", "unauthorized", "authentication", "not allowed", "dubious ownership", "read-only", "forbidden"}},
		{ReasonDiskFull, []string{"no space left", "disk quota"}},
	} {
		for _, p := range c.parts {
			if strings.Contains(low, p) {
				return c.reason
			}
		}
	}
	return ReasonOther
}

// scrub keeps the credential out of an error, wherever it came from.
func scrub(err error, rm Remote) error {
	if err == nil {
		return nil
	}
	secret := strings.TrimSpace(rm.Credential.Reveal())
	if secret != "" && strings.Contains(err.Error(), secret) {
		kind := cmp.Or(mesh.Kind(err), mesh.ErrUnavailable)
		return &Fault{Reason: ReasonOf(err), Err: fmt.Errorf("repo: remote %s: what it answered held the credential, and is not shown: %w", rm.Name, kind)}
	}
	return fmt.Errorf("repo: remote %s: %w", rm.Name, trimPackage(err))
}

// trimmed says "repo: " once.
type trimmed struct{ error }

func (t trimmed) Error() string { return strings.TrimPrefix(t.error.Error(), "repo: ") }

// Unwrap returns the error as it was.
func (t trimmed) Unwrap() error { return t.error }

func trimPackage(err error) error { return trimmed{err} }

// watch ends a conversation in which nothing moves.
type watch struct {
	idle  time.Duration
	timer *time.Timer
}

type watchReader struct {
	r io.Reader
	w *watch
}

func (r *watchReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if n > 0 {
		r.w.timer.Reset(r.w.idle)
	}
	return n, err
}

// headBuffer keeps the first 8 KiB.
type headBuffer struct{ b []byte }

func (h *headBuffer) Write(p []byte) (int, error) {
	if room := 8<<10 - len(h.b); room > 0 {
		h.b = append(h.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}
