//go:build clients

package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// page is what the origin answers to whoever reaches it.
const page = "the other side of the mesh\n"

// origin is what clients want to reach. It has one port, for HTTP on addresses of
// both families and for DNS over UDP:
//
//	/page            page
//	/bytes?n=N       N bytes of noise
//	/sum  (a body)   SHA-256 of it, in hex
type origin struct {
	port      uint16
	server    *http.Server
	dns       []net.PacketConn
	serving   sync.WaitGroup
	addresses []netip.Addr
}

func newOrigin() (*origin, error) {
	o := &origin{addresses: []netip.Addr{loopback, netip.IPv6Loopback()}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, page) })
	mux.HandleFunc("GET /bytes", serveBytes)
	mux.HandleFunc("POST /sum", func(w http.ResponseWriter, r *http.Request) {
		got, err := sum(r.Body)
		if err != nil {
			return // the client sees the end
		}
		io.WriteString(w, got)
	})
	o.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	for _, a := range o.addresses {
		if err := o.listen(a); err != nil {
			return nil, errors.Join(err, o.close())
		}
	}
	return o, nil
}

func (o *origin) listen(a netip.Addr) error {
	ln, err := net.Listen("tcp", netip.AddrPortFrom(a, o.port).String())
	if err != nil {
		return err
	}
	o.port = uint16(ln.Addr().(*net.TCPAddr).Port)
	o.serving.Go(func() { _ = o.server.Serve(ln) }) // ends when it is closed
	pc, err := net.ListenPacket("udp", netip.AddrPortFrom(a, o.port).String())
	if err != nil {
		return err
	}
	o.dns = append(o.dns, pc)
	o.serving.Go(func() { serveDNS(pc) })
	return nil
}

func (o *origin) close() error {
	err := o.server.Close()
	for _, pc := range o.dns {
		err = errors.Join(err, pc.Close())
	}
	o.serving.Wait()
	return err
}

// at is the origin's address under a host.
func (o *origin) at(host string) string { return net.JoinHostPort(host, strconv.Itoa(int(o.port))) }

// url is that of a path at an IPv4 address.
func (o *origin) url(path string) string { return "http://" + o.at(loopback.String()) + path }

func serveBytes(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.FormValue("n"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	_, _ = io.Copy(w, noise(n)) // the client counts
}

// noise is a stream of n bytes that looks random, always the same.
func noise(n int64) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), n) }

func sum(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

// serveDNS answers every question with one address (RFC 1035, 4).
func serveDNS(pc net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		if n < 12 {
			continue
		}
		_, _ = pc.WriteTo(dnsAnswer(buf[:n]), from) // the client asks again
	}
}

// dnsQuestion asks for the address of a name.
func dnsQuestion(id uint16) []byte {
	return append([]byte{byte(id >> 8), byte(id), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, "\x07example\x03net\x00\x00\x01\x00\x01"...)
}

func dnsAnswer(q []byte) []byte {
	a := append([]byte(nil), q...)
	a[2], a[3], a[7] = 0x81, 0x80, 1 // an answer, recursion available, of one record
	return append(a, "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x07"...)
}

func checkDNS(q, got []byte) error {
	if want := dnsAnswer(q); string(want) != string(got) {
		return fmt.Errorf("DNS gave %x, want %x", got, want)
	}
	return nil
}
