package dev

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Origin is a web page on loopback, something to fetch through the mesh.
type Origin struct {
	addr   netip.AddrPort
	server *http.Server
	done   chan error
}

// Page is what the origin answers.
const Page = "Hello from the other side of the mesh.\n"

// The download is Page again and again, a piece each time, without an end.
const (
	downloadPath  = "/download"
	downloadPiece = 20 * time.Millisecond
)

// NewOrigin starts the page on an address of loopback of its own, 127.0.0.2,
// so that the cores' egress rules can allow it and nothing else.
func NewOrigin() (*Origin, error) {
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		return nil, fmt.Errorf("dev: start the demo page: %w", err)
	}
	o := &Origin{done: make(chan error, 1)}
	o.addr = l.Addr().(*net.TCPAddr).AddrPort()
	o.server = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(answer)}
	go func() { o.done <- o.server.Serve(l) }()
	return o, nil
}

func answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, Page)
	if r.URL.Path != downloadPath {
		return
	}
	tick := time.NewTicker(downloadPiece)
	defer tick.Stop()
	for {
		if err := http.NewResponseController(w).Flush(); err != nil {
			return // the client has gone
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			fmt.Fprint(w, Page)
		}
	}
}

// Download is the address of an answer that goes on for as long as the client
// takes it.
func (o *Origin) Download() string { return "http://" + o.addr.String() + downloadPath }

// URL is the page's address.
func (o *Origin) URL() string { return "http://" + o.addr.String() + "/" }

// Prefix is the page's address as a range of one.
func (o *Origin) Prefix() string { return netip.PrefixFrom(o.addr.Addr(), 32).String() }

// Close stops the page.
func (o *Origin) Close() error {
	err := o.server.Close()
	if e := <-o.done; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
