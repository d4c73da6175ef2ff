package core

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

//go:embed page.html
var builtinPage []byte

// newFallback makes what clients without credentials see: a plain web server.
// It returns ErrInvalid for a folder that cannot be read.
func newFallback(where string, log *slog.Logger) (http.Handler, error) {
	switch {
	case where == "":
		return readOnly(http.HandlerFunc(serveBuiltin)), nil
	case strings.HasPrefix(where, "http://"):
		u, err := url.Parse(where)
		if err != nil {
			return nil, fmt.Errorf("core: fallback: %w: %w", mesh.ErrInvalid, err)
		}
		return noTunnel(siteBehind(u, log)), nil
	}
	root, err := os.OpenRoot(where)
	if err != nil {
		return nil, fmt.Errorf("core: fallback: %w: %w", mesh.ErrInvalid, err)
	}
	return readOnly(http.FileServerFS(unlisted{root.FS()})), nil
}

func serveBuiltin(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" && r.URL.Path != "/index.html" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if _, err := w.Write(builtinPage); err != nil {
		return // the client is gone
	}
}

// readOnly answers as a server of static files does.
func readOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			notAllowed(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func noTunnel(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			notAllowed(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func notAllowed(w http.ResponseWriter) {
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "405 method not allowed", http.StatusMethodNotAllowed)
}

// siteBehind passes requests to the owner's own site.
func siteBehind(u *url.URL, log *slog.Logger) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(u); r.Out.Host = r.In.Host },
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// unlisted is a file system whose folders show their index.html or nothing.
type unlisted struct{ fs.FS }

// Open implements fs.FS.
func (u unlisted) Open(name string) (fs.File, error) {
	f, err := u.FS.Open(name)
	if err != nil { // also a link that leads out of the folder
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		_, err = fs.Stat(u.FS, strings.TrimPrefix(name+"/index.html", "./"))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
