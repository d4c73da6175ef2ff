package backup

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// job is a file whose digest is right, to be decrypted and parsed.
type job struct {
	path string
	data []byte
	want *wanted
}

// files reads every file of the tree once. Decrypting is the slow part, so it is
// done side by side, and only a few files are in memory at a time.
func (r *reader) files(ctx context.Context) error {
	jobs := make(chan job)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for j := range jobs {
				r.part(j)
			}
		})
	}
	err := r.tree.Each(ctx, "", func(path string, data []byte) error {
		if w, ok := r.file(path, data); ok {
			jobs <- job{path, data, w}
		}
		return nil
	})
	close(jobs)
	wg.Wait()
	if err != nil {
		return fmt.Errorf("backup: read: %w", err)
	}
	for path, w := range r.want {
		if !w.seen {
			r.faults.add(path, "is missing")
		}
	}
	return nil
}

// file checks one file, and says whether it is one of an object to be read.
func (r *reader) file(path string, data []byte) (*wanted, bool) {
	w := r.want[path]
	switch {
	case path == fileManifest, path == fileSignature, strings.HasPrefix(path, dirIndex+"/"):
		return nil, false
	case strings.HasPrefix(path, dirAudit+"/"):
		r.auditFile(path, data)
		return nil, false
	case w == nil:
		folder, _, _ := strings.Cut(path, "/")
		if r.m.Ours(path) && !r.unlisted[folder] {
			r.fault(path, "is not in the index")
		}
		return nil, false
	case w.seen:
		r.fault(path, "is there twice")
		return nil, false
	}
	w.seen = true
	if len(data) > MaxFile || digest(data) != w.sum {
		r.fault(path, "is not the file that was signed")
		return nil, false
	}
	if w.object == nil {
		r.single(path, data)
		return nil, false
	}
	return w, !w.closed || !r.opts.Public
}

func (r *reader) fault(path, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults.add(path, format, args...)
}

// single takes a file that belongs to no object.
func (r *reader) single(path string, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if path == fileRoot {
		r.root(data)
	}
	name, ok := strings.CutPrefix(path, dirRecipients+"/")
	if !ok {
		return
	}
	if text, ok := strings.CutSuffix(name, ".txt"); ok {
		r.recipient(text).Key = strings.TrimSpace(string(data))
	} else {
		r.recipient(strings.TrimSuffix(name, extClosed)).Protected = string(data)
	}
}

func (r *reader) recipient(name string) *Recipient {
	for i := range r.state.Recipients {
		if r.state.Recipients[i].Name == name {
			return &r.state.Recipients[i]
		}
	}
	r.state.Recipients = append(r.state.Recipients, Recipient{Name: name})
	return &r.state.Recipients[len(r.state.Recipients)-1]
}

// part reads a part of an object.
func (r *reader) part(j job) {
	v, err := r.decode(j)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.faults.add(j.path, "%s", mesh.Quotable(err.Error()))
	case j.want.closed:
		j.want.object.closed = v
	default:
		j.want.object.open = v
	}
}

func (r *reader) decode(j job) (map[string]any, error) {
	text := j.data
	if j.want.closed {
		var err error
		if text, err = open(j.data, r.ids); err != nil {
			return nil, fmt.Errorf("does not open: %w", err)
		}
		p := j.want.object
		if r.mac.key != nil && r.mac.of(pathOf(p.folder, p.id), text) != p.entry.plain {
			return nil, fmt.Errorf("holds something else than the index says")
		}
	}
	v, err := fromYAML(text)
	if err != nil && j.want.closed {
		return nil, fmt.Errorf("what is in it cannot be read") // an error of YAML may quote it
	}
	return v, err
}
