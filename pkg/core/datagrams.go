package core

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/meshctl/meshctl/pkg/clientproto"
	"github.com/meshctl/meshctl/pkg/relay"
)

// datagram has room for any.
type datagram [clientproto.MaxPacket]byte

var datagramPool = sync.Pool{New: func() any { return new(datagram) }}

// framing is how a protocol writes datagrams into a connection.
type framing struct {
	fixed bool // all go to one place, and come from there
	// read says where the next one goes and leaves its n bytes on the reader.
	read func(r *bufio.Reader) (to clientproto.Destination, n int, err error)
	// head is what comes before the n bytes of one that is from there.
	head func(b []byte, from netip.AddrPort, n int) []byte
}

// vlessFraming is of a connection whose datagrams all go to one place.
func vlessFraming(to clientproto.Destination) framing {
	return framing{
		fixed: true,
		read: func(r *bufio.Reader) (clientproto.Destination, int, error) {
			n, err := clientproto.ReadVLESSPacket(r)
			return to, n, err
		},
		head: func(b []byte, _ netip.AddrPort, n int) []byte { return clientproto.AppendVLESSPacket(b, n) },
	}
}

var trojanFraming = framing{
	read: clientproto.ReadTrojanPacket,
	head: func(b []byte, from netip.AddrPort, n int) []byte {
		return clientproto.AppendTrojanPacket(b, clientproto.To(from), n)
	},
}

// datagrams carries a flow of datagrams in c, of which br has read the
// beginning. It ends with c, or when nothing passes any more.
func (h *handler) datagrams(ctx context.Context, g guest, c carrier, br *bufio.Reader, f framing) error {
	fl, err := h.listen(g)
	if err != nil {
		return err
	}
	fl.fixed = f.fixed
	defer fl.Close()
	defer context.AfterFunc(ctx, func() { _ = fl.Close() })() // nothing is buffered
	var down sync.WaitGroup
	down.Go(func() {
		if err := fl.deliver(c, f); !errors.Is(err, net.ErrClosed) {
			relay.Abort(c, relay.CodePeerReset) // nothing passes any more: the client may know
		}
	})
	err = fl.pass(ctx, br, f)
	_ = fl.Close() // as above
	down.Wait()
	return err
}

// pass sends what the client has to say.
func (fl *flow) pass(ctx context.Context, br *bufio.Reader, f framing) error {
	for {
		to, n, err := f.read(br)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fl.passOne(ctx, br, to, n); err != nil {
			return err
		}
	}
}

func (fl *flow) passOne(ctx context.Context, br *bufio.Reader, to clientproto.Destination, n int) error {
	buf := datagramPool.Get().(*datagram)
	defer datagramPool.Put(buf)
	if _, err := io.ReadFull(br, buf[:n]); err != nil {
		return err
	}
	return fl.Send(ctx, buf[:n], to)
}

// deliver writes what comes for the client, until the flow or c ends.
func (fl *flow) deliver(c io.Writer, f framing) error {
	var out []byte
	for {
		err := fl.Receive(func(p []byte, from netip.AddrPort) error {
			if len(p) > clientproto.MaxDatagram {
				fl.drop("size")
				return nil
			}
			out = append(f.head(out[:0], from, len(p)), p...)
			_, err := c.Write(out)
			return err
		})
		if err != nil {
			return err
		}
		if cap(out) > sparse {
			out = nil
		}
	}
}

// sparse is how much a quiet flow keeps at hand.
const sparse = 4 << 10
