package repo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// getPack asks for a commit and what leads to it, and stores what comes.
func (r *Repo) getPack(ctx context.Context, c *conversation, want ID, depth int) error {
	if !c.adv.Capabilities.Supports(capability.Sideband64k) {
		return faultf(ReasonFormat, "fetch: the remote's Git is older than side-band-64k: %w", mesh.ErrInvalid)
	}
	caps := []string{"side-band-64k", agentCap}
	for _, name := range []capability.Capability{capability.OFSDelta, capability.NoProgress, capability.Shallow} {
		if c.adv.Capabilities.Supports(name) {
			caps = append(caps, name.String())
		}
	}
	var b bytes.Buffer
	e := pktline.NewEncoder(&b)
	lines := []string{fmt.Sprintf("want %s %s\n", want, strings.Join(caps, " "))}
	for id := range r.shallow {
		lines = append(lines, fmt.Sprintf("shallow %s\n", id))
	}
	if depth > 0 {
		lines = append(lines, fmt.Sprintf("deepen %d\n", depth))
	}
	lines = append(lines, pktline.FlushString)
	for _, h := range r.haves() {
		lines = append(lines, fmt.Sprintf("have %s\n", h))
	}
	// All in one go: a server over https forgets what was said before.
	if err := e.EncodeString(append(lines, "done\n")...); err != nil {
		return fmt.Errorf("repo: fetch: %w", err)
	}
	answer, err := c.ask(ctx, &b, int64(b.Len()))
	if err != nil {
		return err
	}
	d := &demux{s: pktline.NewScanner(answer), depth: depth}
	if err := d.begin(); err != nil {
		return err
	}
	if err := r.storePack(ctx, d); err != nil {
		return err
	}
	return r.setShallow(append(d.shallow, c.adv.Shallows...), d.unshallow)
}

// setShallow keeps which commits came without their parents.
func (r *Repo) setShallow(add, remove []plumbing.Hash) error {
	if len(add) == 0 && len(remove) == 0 {
		return nil
	}
	for _, h := range add {
		if r.has(h) {
			r.shallow[idOf(h)] = true
		}
	}
	for _, h := range remove {
		delete(r.shallow, idOf(h))
	}
	var all []plumbing.Hash
	for id := range r.shallow {
		// One whose parents came after all is whole.
		delete(r.shallow, id)
		c, err := r.commit(id)
		if err != nil {
			return err
		}
		whole := true
		for _, p := range c.parents {
			whole = whole && r.has(p.hash())
		}
		if !whole {
			all = append(all, id.hash())
		}
	}
	for _, h := range all {
		r.shallow[idOf(h)] = true
	}
	if err := r.store.SetShallow(all); err != nil {
		return fmt.Errorf("repo: fetch: %w", err)
	}
	return nil
}

// demux reads the answer to a fetch: a few lines, then the pack in packets.
type demux struct {
	s                  *pktline.Scanner
	depth              int
	shallow, unshallow []plumbing.Hash
	rest               []byte
	done               bool
}

// begin reads up to the first packet.
func (d *demux) begin() error {
	for d.s.Scan() {
		line := d.s.Bytes()
		text := string(bytes.TrimSpace(line))
		word, arg, _ := strings.Cut(text, " ")
		switch {
		case len(line) == 0, word == "NAK", word == "ACK":
		case word == "shallow":
			d.shallow = append(d.shallow, plumbing.NewHash(arg))
		case word == "unshallow":
			d.unshallow = append(d.unshallow, plumbing.NewHash(arg))
		default:
			return d.packet(line)
		}
	}
	return d.end()
}

func (d *demux) end() error {
	d.done = true
	if err := d.s.Err(); err != nil {
		return faultf(ReasonConnection, "fetch: %w: %w", err, mesh.ErrUnavailable)
	}
	return faultf(ReasonConnection, "fetch: the remote hung up: %w", mesh.ErrUnavailable)
}

func (d *demux) packet(line []byte) error {
	switch line[0] {
	case 1:
		d.rest = line[1:]
	case 2: // progress, for people
	case 3:
		return faultf(ReasonOther, "fetch: the remote says %s: %w", quote(string(line[1:])), mesh.ErrUnavailable)
	default:
		return faultf(ReasonFormat, "fetch: the remote sent %s: %w", quote(string(line[:min(40, len(line))])), mesh.ErrInvalid)
	}
	return nil
}

// Read reads the pack.
func (d *demux) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		if d.done {
			return 0, io.EOF
		}
		if !d.s.Scan() {
			return 0, d.end()
		}
		line := d.s.Bytes()
		if len(line) == 0 {
			d.done = true
			return 0, io.EOF
		}
		if err := d.packet(line); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}
