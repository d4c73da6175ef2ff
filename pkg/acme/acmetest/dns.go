// Package acmetest is what a test of orders needs: a DNS server that takes
// updates, and an ACME authority that asks it.
package acmetest

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Key and Secret are the TSIG key that the DNS server takes, of Algorithm.
const (
	Key       = "update-key.example.net"
	Secret    = "c2VjcmV0IG9mIHRoZSB1cGRhdGUga2V5IGluIHRlc3Rz"
	Algorithm = "hmac-sha256"
)

// DNS is a server for everything: it answers from its records, and is
// authoritative and recursive at once.
type DNS struct {
	Addr string // of UDP and TCP

	mu      sync.Mutex // guards what follows
	records []dns.RR
	added   []string // texts of TXT records that updates have brought
	refuse  int      // Rcode for updates; 0: they are taken
	lose    bool     // updates are taken and forgotten
	fail    bool     // queries are answered SERVFAIL
}

// NewDNS serves the zones with those records (in the form of zone files) until
// the test ends.
func NewDNS(t testing.TB, zones []string, records ...string) *DNS {
	t.Helper()
	d := &DNS{}
	for _, z := range zones {
		records = append(records, z+" 60 IN SOA ns."+z+" admin."+z+" 1 60 60 60 60")
	}
	for _, r := range records {
		d.Put(t, r)
	}
	ln, pc := listen(t)
	d.Addr = ln.Addr().String()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	for _, s := range []*dns.Server{{Listener: ln}, {PacketConn: pc}} {
		s.Handler, s.TsigSecret, s.MsgAcceptFunc = dns.HandlerFunc(d.serve), map[string]string{dns.Fqdn(Key): Secret}, accept
		up := make(chan struct{})
		s.NotifyStartedFunc = func() { close(up) }
		wg.Go(func() { _ = s.ActivateAndServe() }) // ends with Shutdown
		<-up
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return d
}

// listen takes one port of both kinds.
func listen(t testing.TB) (net.Listener, net.PacketConn) {
	t.Helper()
	for range 20 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		pc, err := net.ListenPacket("udp", ln.Addr().String())
		if err == nil {
			return ln, pc
		}
		ln.Close()
	}
	t.Fatal("no port is free for TCP and UDP")
	return nil, nil
}

// accept takes updates too, which the library refuses by itself.
func accept(h dns.Header) dns.MsgAcceptAction {
	if opcode := int(h.Bits>>11) & 0xF; opcode == dns.OpcodeUpdate {
		return dns.MsgAccept
	}
	return dns.DefaultMsgAcceptFunc(h)
}

// Put adds a record in the form of a zone file.
func (d *DNS) Put(t testing.TB, record string) {
	t.Helper()
	rr, err := dns.NewRR(record)
	if err != nil || rr == nil {
		t.Fatalf("record %q: %v", record, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records = append(d.records, rr)
}

// Drop removes all records of a type (such as "CAA") at a name.
func (d *DNS) Drop(name, kind string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records = slices.DeleteFunc(d.records, func(rr dns.RR) bool { return at(rr, name, dns.StringToType[kind]) })
}

// Misbehave has updates refused with that code (0: taken), or taken and
// forgotten, and queries failed.
func (d *DNS) Misbehave(refuse int, lose, fail bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse, d.lose, d.fail = refuse, lose, fail
}

// Texts are the TXT records at a name now, and Added all that updates have
// brought in the life of the server.
func (d *DNS) Texts(name string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, rr := range d.records {
		if at(rr, name, dns.TypeTXT) {
			out = append(out, strings.Join(rr.(*dns.TXT).Txt, ""))
		}
	}
	return out
}

// Added are the texts of all TXT records that updates have brought.
func (d *DNS) Added() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.added)
}

func at(rr dns.RR, name string, kind uint16) bool {
	return dns.CanonicalName(rr.Header().Name) == dns.CanonicalName(name) && rr.Header().Rrtype == kind
}

func (d *DNS) serve(w dns.ResponseWriter, r *dns.Msg) {
	d.mu.Lock()
	m := d.answer(w, r)
	d.mu.Unlock()
	if t := r.IsTsig(); t != nil && w.TsigStatus() == nil {
		m.SetTsig(t.Hdr.Name, t.Algorithm, 300, int64(t.TimeSigned))
	}
	_ = w.WriteMsg(m) // whoever asked may have gone
}

func (d *DNS) answer(w dns.ResponseWriter, r *dns.Msg) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(r)
	switch {
	case r.Opcode == dns.OpcodeUpdate:
		m.Rcode = d.update(w, r)
	case d.fail:
		m.Rcode = dns.RcodeServerFailure
	case len(r.Question) == 1:
		d.find(m, r.Question[0].Name, r.Question[0].Qtype)
	}
	return m
}

// find answers with records, the aliases that lead to them, or the zone.
func (d *DNS) find(m *dns.Msg, name string, kind uint16) {
	for range 5 {
		alias := ""
		for _, rr := range d.records {
			switch {
			case at(rr, name, kind):
				m.Answer = append(m.Answer, rr)
			case at(rr, name, dns.TypeCNAME):
				m.Answer = append(m.Answer, rr)
				alias = rr.(*dns.CNAME).Target
			}
		}
		if alias == "" || kind == dns.TypeCNAME {
			break
		}
		name = alias
	}
	if _, above, ok := strings.Cut(name, "."); ok && len(m.Answer) == 0 {
		for _, rr := range d.records {
			if at(rr, "*."+above, kind) {
				rr = dns.Copy(rr)
				rr.Header().Name = name
				m.Answer = append(m.Answer, rr)
			}
		}
	}
	if len(m.Answer) > 0 {
		return
	}
	for _, rr := range d.records {
		if rr.Header().Rrtype == dns.TypeSOA && dns.IsSubDomain(rr.Header().Name, name) {
			m.Ns = append(m.Ns, rr)
		}
	}
}

func (d *DNS) update(w dns.ResponseWriter, r *dns.Msg) int {
	switch {
	case r.IsTsig() == nil || w.TsigStatus() != nil:
		return dns.RcodeNotAuth
	case d.refuse != 0:
		return d.refuse
	case !slices.ContainsFunc(d.records, func(rr dns.RR) bool { return at(rr, r.Question[0].Name, dns.TypeSOA) }):
		return dns.RcodeNotZone
	case d.lose:
		return dns.RcodeSuccess
	}
	for _, rr := range r.Ns {
		txt, ok := rr.(*dns.TXT)
		if !ok {
			return dns.RcodeRefused
		}
		if rr.Header().Class == dns.ClassNONE {
			d.records = slices.DeleteFunc(d.records, func(have dns.RR) bool {
				return at(have, rr.Header().Name, dns.TypeTXT) && slices.Equal(have.(*dns.TXT).Txt, txt.Txt)
			})
			continue
		}
		d.records = append(d.records, rr)
		d.added = append(d.added, strings.Join(txt.Txt, ""))
	}
	return dns.RcodeSuccess
}

// CAA is a record that lets one account of an authority order by DNS-01 alone.
func CAA(name, authority, account string) string {
	return fmt.Sprintf("%s 60 IN CAA 0 issue %q", dns.Fqdn(name), authority+"; accounturi="+account+"; validationmethods=dns-01")
}
