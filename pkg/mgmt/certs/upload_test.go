package certs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (w *world) upload(file []byte) (out Uploaded, err error) {
	_, err = w.st.Change(w.t.Context(), store.By{Actor: "local:0"}, "upload", func(tx *store.Tx) (err error) {
		out, err = Upload(tx, w.st, w.cell, file, time.Now())
		return err
	})
	return out, err
}

func TestAnUploadedChainReachesTheCoreWhoseKeyItIsFor(t *testing.T) {
	w := newWorld(t, nil)
	w.run()
	csr := requestFor(t, newKey(t), "*.a.example.net")
	if _, err := w.ask(csr); err != nil {
		t.Fatal(err)
	}
	chain := w.ca.certify(t, csr, time.Hour)
	file := append([]byte("what the authority says\n"), toPEM(append(chain, w.ca.root.Raw)...)...)
	for range 2 { // the second time nothing changes
		out, err := w.upload(file)
		if err != nil || out.Core != w.core.ID || out.NotAfter.IsZero() || !strings.Contains(out.Warning, "does not trust") {
			t.Fatalf("got %+v, %v", out, err)
		}
	}
	eventually(t, "the core is given it, without the root", func() bool { return len(w.given(w.core.ID)) == 2 })
	if c := w.record(); c.Order.By != mesh.OrderUpload || Open(c.Order) {
		t.Errorf("noted %+v", c.Order)
	}
}

func TestUploadsThatWouldServeNobody(t *testing.T) {
	w := newWorld(t, nil)
	csr := requestFor(t, newKey(t), "*.a.example.net")
	if _, err := w.ask(csr); err != nil {
		t.Fatal(err)
	}
	good, other := w.ca.certify(t, csr, time.Hour), newAuthority(t)
	cut := func(s []byte) []byte { return s[:len(s)/2] }
	for name, tt := range map[string]struct {
		file []byte
		want error
		says string
	}{
		"nothing":                    {nil, mesh.ErrInvalid, "0 certificates"},
		"rubbish":                    {[]byte("rubbish"), mesh.ErrInvalid, "0 certificates"},
		"cut short":                  {cut(toPEM(good[0])), mesh.ErrInvalid, "0 certificates"},
		"the key of somebody":        {append(keyPEM(t, newKey(t)), toPEM(good...)...), mesh.ErrInvalid, "keys stay"},
		"a key nobody asked for":     {toPEM(w.ca.certify(t, requestFor(t, newKey(t), "*.a.example.net"), time.Hour)...), mesh.ErrNotFound, "no core"},
		"another suffix":             {toPEM(w.ca.certify(t, csr, time.Hour, "*.b.example.net")...), mesh.ErrInvalid, "does not serve"},
		"no wildcard":                {toPEM(w.ca.certify(t, csr, time.Hour, "a.example.net")...), mesh.ErrInvalid, "does not serve"},
		"one that has ended":         {toPEM(w.ca.certify(t, csr, -time.Minute)...), mesh.ErrInvalid, "ended at"},
		"the wrong order":            {toPEM(good[1], good[0]), mesh.ErrInvalid, "certificate 1"},
		"another intermediate":       {toPEM(good[0], other.inter.Raw), mesh.ErrInvalid, "not signed by the next"},
		"certificates over and over": {toPEM(good[0], good[1], good[1], good[1], good[1], good[1], good[1], good[1], good[1]), mesh.ErrInvalid, "9 certificates"},
	} {
		_, err := w.upload(tt.file)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.cell.Certificate = mesh.CertificatePrivate
	if _, err := w.upload(toPEM(good...)); !errors.Is(err, mesh.ErrConflict) {
		t.Errorf("for a private cell: %v", err)
	}
	if len(w.record().Order.Chain) != 0 {
		t.Error("something was taken")
	}
}

// Files come from administrators, who are sent them by others.
func FuzzParseChain(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		chain, err := parseChain(file)
		if err == nil {
			_, err = checkChain(chain, "*.a.example.net", time.Now())
		}
		if err != nil && !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%v", err)
		}
	})
}
