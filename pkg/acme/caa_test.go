package acme

import (
	"strings"
	"testing"
)

func TestWhichCAARecordsKeepOthersFromOrdering(t *testing.T) {
	const account, other = "https://ca.example/acct/1", "https://ca.example/acct/2"
	ids := []string{"ca.example", "old-name.example"}
	ours := `ca.example; accounturi=` + account + `; validationmethods=dns-01`
	for name, tt := range map[string]struct {
		records []CAA
		fault   string // "": none
		advice  string
	}{
		"none":                                  {nil, "any authority", ""},
		"only iodef":                            {[]CAA{{0, "iodef", "mailto:x@example.net"}}, "any authority", ""},
		"ours":                                  {[]CAA{{0, "issue", ours}}, "", ""},
		"ours, with spaces and capitals":        {[]CAA{{0, "issue", " CA.example ;  AccountURI = " + account + " ; validationmethods=dns-01 "}}, "", ""},
		"ours under another name":               {[]CAA{{0, "issue", "old-name.example; accounturi=" + account + "; validationmethods=dns-01"}}, "", ""},
		"ours by any method":                    {[]CAA{{0, "issue", "ca.example; accounturi=" + account}}, "", "validationmethods"},
		"ours for both kinds":                   {[]CAA{{0, "issue", ours}, {0, "issuewild", ours}}, "", ""},
		"nobody but ours for wildcards":         {[]CAA{{0, "issue", ";"}, {0, "issuewild", ours}}, "", ""},
		"wildcards alone are bound":             {[]CAA{{0, "issuewild", ours}}, "any authority", ""},
		"any account":                           {[]CAA{{0, "issue", "ca.example"}}, "any account", ""},
		"any account for wildcards":             {[]CAA{{0, "issue", ours}, {0, "issuewild", "ca.example"}}, "any account", ""},
		"another account":                       {[]CAA{{0, "issue", "ca.example; accounturi=" + other}}, "another account", ""},
		"an account of which ours is the start": {[]CAA{{0, "issue", "ca.example; accounturi=" + account + "2"}}, "another account", ""},
		"any account of another authority":      {[]CAA{{0, "issue", ours}, {0, "issue", "other.example"}}, "any account", ""},
		"an account of another authority":       {[]CAA{{0, "issue", ours}, {0, "issue", "other.example; accounturi=" + other}}, "another authority", ""},
		"nobody":                                {[]CAA{{0, "issue", ";"}}, "will refuse", ""},
		"nobody at all":                         {[]CAA{{0, "issue", ""}}, "will refuse", ""},
	} {
		faults, advice := JudgeCAA(tt.records, ids, account)
		if got := strings.Join(faults, "; "); (got == "") != (tt.fault == "") || !strings.Contains(got, tt.fault) {
			t.Errorf("%s: faults %q, want %q", name, got, tt.fault)
		}
		if got := strings.Join(advice, "; "); (got == "") != (tt.advice == "") || !strings.Contains(got, tt.advice) {
			t.Errorf("%s: advice %q, want %q", name, got, tt.advice)
		}
	}
}

func TestCAARecordsAreFoundAtTheNearestName(t *testing.T) {
	d := zone(t, `example.net. 60 IN CAA 0 issue "top"`, `b.example.net. 60 IN CAA 0 issue "near"`, `c.example.net. 60 IN CNAME b.example.net.`)
	r := quick(t, d)
	for name, want := range map[string]string{
		"*.a.example.net": "top", "example.net": "top", "b.example.net": "near", "*.x.b.example.net": "near", "c.example.net": "near", "example.org": "",
	} {
		got, at, err := r.CAA(t.Context(), name)
		if err != nil || (len(got) == 1) != (want != "") || want != "" && (got[0].Value != want || at == "") {
			t.Errorf("%s: %v at %q, %v", name, got, at, err)
		}
	}
}

func TestTheRecordsThatAreWantedAreThoseThatAreTaken(t *testing.T) {
	const account = "https://ca.example/acct/1"
	for _, line := range WantedCAA("*.a.example.net", []string{"ca.example"}, account) {
		d := zone(t, line)
		got, at, err := quick(t, d).CAA(t.Context(), "*.a.example.net")
		if err != nil || at != "a.example.net" {
			t.Fatalf("%v at %s, %v", got, at, err)
		}
		if faults, advice := JudgeCAA(got, []string{"ca.example"}, account); len(faults)+len(advice) > 0 {
			t.Errorf("%s: %v, %v", line, faults, advice)
		}
	}
}

// What is in a record comes from whoever runs the zone, or pretends to.
func FuzzJudgeCAA(f *testing.F) {
	const account = "https://ca.example/acct/1"
	f.Add("issue", "ca.example; accounturi="+account)
	f.Add("issuewild", ";")
	f.Add("issue", "ca.example;;=;accounturi")
	f.Add("iodef", "mailto:x")
	f.Fuzz(func(t *testing.T, tag, value string) {
		faults, _ := JudgeCAA([]CAA{{0, tag, value}}, []string{"ca.example"}, account)
		if len(faults) == 0 && !strings.Contains(value, account) {
			t.Errorf("%s %q is taken without naming the account", tag, value)
		}
		ours, _ := JudgeCAA([]CAA{{0, "issue", "ca.example; accounturi=" + account}, {0, tag, value}}, []string{"ca.example"}, account)
		domain, params := CAA{0, tag, value}.issuer()
		if (tag == "issue" || tag == "issuewild") && domain != "" && params[paramAccount] != account && len(ours) == 0 {
			t.Errorf("%s %q lets somebody else order", tag, value)
		}
	})
}
