package dev

import (
	"net/http"
	"strings"
	"testing"
)

// What clients notice is told; stopping the traffic is nothing they notice.
func TestTrafficTellsWhatClientsNoticed(t *testing.T) {
	for name, breaks := range map[string]bool{"nothing breaks": false, "the page goes away": true} {
		t.Run(name, func(t *testing.T) {
			o, err := NewOrigin()
			if err != nil {
				t.Fatal(err)
			}
			transport := &http.Transport{DisableKeepAlives: true}
			x := &traffic{page: o.URL(), clients: []*http.Client{{Transport: transport}}}
			if err := x.start(t.Context(), &http.Client{Transport: transport}, o.Download()); err != nil {
				t.Fatal(err)
			}
			if err := x.seen(t.Context(), 3); err != nil {
				t.Error(err)
			}
			if breaks {
				if err := o.Close(); err != nil {
					t.Error(err)
				}
				if err := x.seen(t.Context(), 3); err != nil {
					t.Error(err)
				}
			}
			saw := x.end()
			if !breaks {
				if err := o.Close(); err != nil {
					t.Error(err)
				}
			}
			fault := saw.fault()
			switch {
			case saw.made == 0 || saw.bytes == 0 || saw.stall == 0 || saw.slowest == 0:
				t.Errorf("it measured nothing: %+v", saw)
			case !breaks && fault != nil:
				t.Errorf("told of %v", fault)
			case breaks && (fault == nil || !strings.Contains(fault.Error(), "failed, the first: ") || !strings.Contains(fault.Error(), "was cut")):
				t.Errorf("told of %v", fault)
			}
		})
	}
}
