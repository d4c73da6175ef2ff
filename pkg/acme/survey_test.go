package acme

import (
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/acme/acmetest"
)

func TestWhatNameServersShouldSay(t *testing.T) {
	const account = "https://ca.example/acct/1"
	d := zone(t, "*.a.example.net. 60 IN A 192.0.2.1", acmetest.CAA("a.example.net", "ca.example", account),
		"*.b.example.net. 60 IN A 203.0.113.9", "sub.example.net. 60 IN CNAME entry.example.net.",
		"entry.example.net. 60 IN A 192.0.2.1", "entry.example.net. 60 IN AAAA 2001:db8::1")
	r := quick(t, d)
	for name, tt := range map[string]struct {
		question Question
		problems string // "": none
		makes    string
	}{
		"as it should be":                    {Question{Name: "*.a.example.net", Public: true, Ordered: true}, "", ""},
		"another address":                    {Question{Name: "*.b.example.net"}, "203.0.113.9, which is no entry", "*.b.example.net. A 192.0.2.1"},
		"no address":                         {Question{Name: "*.c.example.net"}, "leads nowhere", "*.c.example.net. A 192.0.2.1"},
		"no CAA record":                      {Question{Name: "sub.example.net", Public: true, Ordered: true}, "any authority", `sub.example.net. CAA 0 issue "ca.example; accounturi=` + account},
		"names of entries":                   {Question{Name: "sub.example.net", Entries: []string{"entry.example.net:443"}}, "", ""},
		"one of two":                         {Question{Name: "*.a.example.net", Entries: []string{"entry.example.net:443"}}, "", "*.a.example.net. AAAA 2001:db8::1"},
		"an entry's name that leads nowhere": {Question{Name: "*.c.example.net", Entries: []string{"gone.example.net:443"}}, "it leads nowhere; the address of an entry, gone.example.net", ""},
		"no entries":                         {Question{Name: "*.a.example.net", Entries: []string{}}, "", ""},
	} {
		q := tt.question
		q.Account, q.Identities = account, []string{"ca.example"}
		if q.Entries == nil {
			q.Entries = []string{"192.0.2.1:443"}
			if q.Name == "sub.example.net" {
				q.Entries = append(q.Entries, "[2001:db8::1]:443")
			}
		}
		a := r.Survey(t.Context(), q)
		problems, makes := strings.Join(a.Problems, "; "), strings.Join(a.Make, "; ")
		if (problems == "") != (tt.problems == "") || !strings.Contains(problems, tt.problems) {
			t.Errorf("%s: problems %q, want %q", name, problems, tt.problems)
		}
		if (makes == "") != (tt.makes == "") || !strings.Contains(makes, tt.makes) {
			t.Errorf("%s: make %q, want %q", name, makes, tt.makes)
		}
	}
	d.Misbehave(0, false, true)
	if a := r.Survey(t.Context(), Question{Name: "sub.example.net"}); len(a.Problems) == 0 {
		t.Error("silence of the name servers is no problem")
	}
}
