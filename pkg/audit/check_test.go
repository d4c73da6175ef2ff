package audit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/audit"
	"github.com/meshctl/meshctl/pkg/mesh"
)

var start = time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)

// recordAt is the n-th record, one a minute.
func recordAt(n int) audit.Record {
	id := fmt.Sprintf("%016x%08x", start.Add(time.Duration(n)*time.Minute).UnixMicro(), n)
	return audit.Record{ID: id, JSON: fmt.Appendf(nil,
		`{"schema":1,"minReader":1,"id":%q,"time":"2027-01-15T08:00:00Z","actor":"local:0","action":"member.add","changes":[{"object":"member/m%d","after":{"name":"A","n":1.50}}]}`, id, n)}
}

// chain is a chain of links over records, so many each.
func chain(t testing.TB, sizes ...int) ([]mesh.AuditSegment, []audit.Record) {
	t.Helper()
	var links []mesh.AuditSegment
	var all []audit.Record
	var last mesh.AuditSegment
	for _, size := range sizes {
		var these []audit.Record
		for range size {
			these = append(these, recordAt(len(all)+len(these)))
		}
		l, err := audit.Link(last, these, start.Add(time.Duration(len(all)+size)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		links, all, last = append(links, l), append(all, these...), l
	}
	return links, all
}

func check(links []mesh.AuditSegment, all []audit.Record, keep *audit.Keep, anchors ...audit.Anchor) audit.Report {
	c := audit.NewChecker(links, anchors...)
	for _, r := range all {
		c.Add(r)
	}
	return c.End(keep, start.Add(24*time.Hour))
}

// ample keeps everything that these tests make.
var ample = &audit.Keep{Age: 30 * 24 * time.Hour, Number: 1000, Links: 400 * 24 * time.Hour}

func TestAChainThatNobodyTouchedHolds(t *testing.T) {
	links, all := chain(t, 3, 1, 4)
	open := []audit.Record{recordAt(8), recordAt(9)}
	r := check(links, append(all, open...), ample, audit.Anchor{Link: links[1].ID, Sum: links[1].Sum})
	if r.Wrong != 0 || r.Links != 3 || r.Records != 8 || r.Open != 2 || r.From != all[0].ID || r.Through != all[7].ID || r.Sum != links[2].Sum {
		t.Errorf("got %+v", r)
	}
	if r := check(nil, open, ample); r.Wrong != 0 || r.Open != 2 {
		t.Errorf("before the first link: got %+v", r)
	}
	if _, err := audit.Link(links[2], all[7:], start); err == nil {
		t.Error("a link over what is covered was made")
	}
}

func TestRecordsKeepTheirHashInAnotherForm(t *testing.T) {
	links, all := chain(t, 2)
	all[1].JSON = []byte(strings.Replace(string(all[1].JSON), `{"schema":1,"minReader":1,`, `{ "minReader":1, "schema":1, `, 1))
	if r := check(links, all, ample); r.Wrong != 0 {
		t.Errorf("got %v", r.Faults)
	}
}

func TestTamperingShows(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(links *[]mesh.AuditSegment, all *[]audit.Record)
		want string
	}{
		"a record is changed": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) {
			(*all)[4].JSON = []byte(strings.Replace(string((*all)[4].JSON), "local:0", "local:1", 1))
		}, "link 2: a record that it covers is not as it was written"},
		"a record gets another member": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) {
			(*all)[4].JSON = []byte(strings.Replace(string((*all)[4].JSON), `"actor"`, `"via":"telegram:7","actor"`, 1))
		}, "link 2: a record that it covers is not as it was written"},
		"a number is written otherwise": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) {
			(*all)[4].JSON = []byte(strings.Replace(string((*all)[4].JSON), "1.50", "1.5", 1))
		}, "link 2: a record that it covers is not as it was written"},
		"a record is no JSON": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) { (*all)[4].JSON = []byte("{") },
			"it cannot be read"},
		"a record in the middle is removed": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) { *all = slices.Delete(*all, 4, 5) },
			"link 2: it covers 3 records, and there are 2"},
		"the first record is removed": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) { *all = (*all)[1:] },
			"link 1: it covers 3 records, and there are 2"},
		"the last record is removed": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) { *all = (*all)[:8] },
			"link 3: it covers 3 records, and there are 2"},
		"all records of a link are removed": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) { *all = slices.Delete(*all, 3, 6) },
			"link 2: its 3 records are missing"},
		"the oldest are removed too early": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) { *all = (*all)[6:] },
			"link 2: its records, and those before, are gone before their time"},
		"everything is removed": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) { *all = nil },
			"link 3: its records, and those before, are gone before their time"},
		"a record is added to a link": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) {
			r := recordAt(4)
			r.ID = (*all)[4].ID[:16] + "ffffffff"
			*all = slices.Insert(*all, 5, r)
		}, "link 2: it covers 3 records, and there are 4"},
		"a record is added between two links": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) {
			r := recordAt(2)
			r.ID = (*all)[2].ID[:16] + "ffffffff"
			*all = slices.Insert(*all, 3, r)
		}, "no link covers it"},
		"a record is added before all": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) { *all = slices.Insert(*all, 0, recordAt(-1)) },
			"no link covers it"},
		"two records change places": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) {
			(*all)[3].JSON, (*all)[4].JSON = (*all)[4].JSON, (*all)[3].JSON
		}, "link 2: a record that it covers is not as it was written"},
		"a record comes twice": {func(_ *[]mesh.AuditSegment, all *[]audit.Record) { *all = slices.Insert(*all, 4, (*all)[3]) },
			"it comes twice"},
		"a link is removed": {func(links *[]mesh.AuditSegment, _ *[]audit.Record) { *links = slices.Delete(*links, 1, 2) },
			"link 3: it follows number 1"},
		"the first link is removed": {func(links *[]mesh.AuditSegment, _ *[]audit.Record) { *links = (*links)[1:] },
			"link 2: the links before it are gone before their time"},
		"a link is renumbered": {func(links *[]mesh.AuditSegment, _ *[]audit.Record) { (*links)[2].ID = audit.Number(4) },
			"link 4: it follows number 2"},
		"a link has no number": {func(links *[]mesh.AuditSegment, _ *[]audit.Record) { (*links)[2].ID = "x" }, "its number is none"},
		"a link covers other records": {func(links *[]mesh.AuditSegment, all *[]audit.Record) {
			(*all)[4].JSON = []byte(strings.Replace(string((*all)[4].JSON), "local:0", "local:1", 1))
			l, err := audit.Link((*links)[0], (*all)[3:6], (*links)[1].Sealed)
			if err != nil {
				panic(err)
			}
			(*links)[1] = l // it holds by itself, and the next one tells
		}, "link 3: it, or the link before, is not as it was made"},
		"the chain is made anew": {func(links *[]mesh.AuditSegment, all *[]audit.Record) {
			var last mesh.AuditSegment
			(*all)[0].JSON = []byte(strings.Replace(string((*all)[0].JSON), "local:0", "local:1", 1))
			for i := range *links {
				l, err := audit.Link(last, (*all)[3*i:3*i+3], (*links)[i].Sealed)
				if err != nil {
					panic(err)
				}
				(*links)[i], last = l, l
			}
		}, "link 3: it is not the one that is known from elsewhere"},
		"the end is cut off": {func(links *[]mesh.AuditSegment, all *[]audit.Record) { *links, *all = (*links)[:2], (*all)[:6] },
			"link 3: it is known from elsewhere, and is not here"},
	} {
		t.Run(name, func(t *testing.T) {
			links, all := chain(t, 3, 3, 3)
			anchor := audit.Anchor{Link: links[2].ID, Sum: links[2].Sum}
			c.do(&links, &all)
			r := check(links, all, ample, anchor)
			if r.Wrong == 0 || !slices.ContainsFunc(r.Faults, func(f audit.Fault) bool { return strings.Contains(f.String(), c.want) }) {
				t.Errorf("got %v, want %q", r.Faults, c.want)
			}
		})
	}
}

// TestEachBitCounts flips every bit of a record and of what a link says.
func TestEachBitCounts(t *testing.T) {
	links, all := chain(t, 2, 1)
	for i := range all[1].JSON {
		for bit := range 8 {
			bent := slices.Clone(all)
			bent[1].JSON = slices.Clone(all[1].JSON)
			bent[1].JSON[i] ^= 1 << bit
			if check(links, bent, ample).Wrong == 0 {
				t.Fatalf("bit %d of byte %d does not show: %s", bit, i, bent[1].JSON)
			}
		}
	}
	for name, do := range map[string]func(*mesh.AuditSegment){
		"number":  func(l *mesh.AuditSegment) { l.ID = audit.Number(3) },
		"first":   func(l *mesh.AuditSegment) { l.First = bent(l.First) },
		"through": func(l *mesh.AuditSegment) { l.Through = bent(l.Through) },
		"count":   func(l *mesh.AuditSegment) { l.Count ^= 1 },
		"records": func(l *mesh.AuditSegment) { l.Records = bent(l.Records) },
		"sum":     func(l *mesh.AuditSegment) { l.Sum = bent(l.Sum) },
		"sealed":  func(l *mesh.AuditSegment) { l.Sealed = l.Sealed.Add(1) },
	} {
		for i := range links {
			changed := slices.Clone(links)
			do(&changed[i])
			if check(changed, all, ample, audit.Anchor{Link: links[1].ID, Sum: links[1].Sum}).Wrong == 0 {
				t.Errorf("%s of link %d does not show", name, i+1)
			}
		}
	}
}

func bent(hex string) string {
	b := []byte(hex)
	b[len(b)-1] ^= 1
	return string(b)
}

func TestWhatIsOldMayBeGone(t *testing.T) {
	links, all := chain(t, 3, 3, 3)
	old := &audit.Keep{Age: time.Hour, Number: 1000, Links: time.Hour}
	for name, c := range map[string]struct {
		links []mesh.AuditSegment
		all   []audit.Record
		keep  *audit.Keep
		ok    bool
	}{
		"by age":                          {links, all[3:], old, true},
		"by number":                       {links, all[3:], &audit.Keep{Age: ample.Age, Number: 6, Links: ample.Links}, true},
		"all of them, by age":             {links, nil, old, true},
		"with their links":                {links[1:], all[3:], old, true},
		"in the middle of a link":         {links, all[2:], old, false},
		"a backup that began later":       {links, all[6:], nil, true},
		"a backup with records of before": {links[1:], all, nil, true},
		"a backup with a gap":             {links, slices.Concat(all[:3], all[6:]), nil, false},
	} {
		if r := check(c.links, c.all, c.keep); (r.Wrong == 0) != c.ok {
			t.Errorf("%s: got %v", name, r.Faults)
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	links, all := chain(t, 1)
	for i := range 500 {
		all = append([]audit.Record{recordAt(-1 - i)}, all...)
	}
	if r := check(links, all, ample); r.Wrong != 500 || len(r.Faults) >= 500 {
		t.Errorf("%d faults, %d named", r.Wrong, len(r.Faults))
	}
}

// FuzzLinks: whatever a stranger's backup holds, a check ends, and only what Link
// made holds.
func FuzzLinks(f *testing.F) {
	links, all := chain(f, 1)
	f.Add(links[0].ID, links[0].First, links[0].Through, links[0].Count, links[0].Records, links[0].Sum, all[0].ID, all[0].JSON)
	f.Add("", "", "", -1, "", "", "", []byte("{}"))
	f.Fuzz(func(t *testing.T, id, first, through string, count int, sum, own, record string, text []byte) {
		l := mesh.AuditSegment{ID: id, First: first, Through: through, Count: count, Records: sum, Sum: own, Sealed: start}
		r := check([]mesh.AuditSegment{l, l}, []audit.Record{{ID: record, JSON: text}}, ample)
		if r.Wrong == 0 {
			t.Errorf("a link that follows itself holds: %+v", l)
		}
		for _, f := range r.Faults {
			if f.String() == "" {
				t.Error("a fault says nothing")
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	sizes := make([]int, 20)
	for i := range sizes {
		sizes[i] = 500
	}
	links, all := chain(b, sizes...)
	b.ResetTimer()
	for b.Loop() {
		if r := check(links, all, ample); r.Wrong != 0 {
			b.Fatal(r.Faults)
		}
	}
}
