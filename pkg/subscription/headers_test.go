package subscription

import (
	"encoding/base64"
	"math"
	"mime"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestUsageIsReadRightByApps(t *testing.T) {
	end := time.Unix(1800000000, 0)
	for _, c := range []struct {
		name string
		p    Profile
		want string
	}{
		{"unlimited, without end", Profile{Up: 1, Down: 2}, "upload=1; download=2"},
		{"limit and end", Profile{Up: 1, Down: 2, Limit: 10, Expires: end}, "upload=1; download=2; total=10; expire=1800000000"},
		{"used up", Profile{Up: 6, Down: 9, Limit: 10}, "upload=6; download=4; total=10"},
		{"used up by sending", Profile{Up: 16, Down: 9, Limit: 10}, "upload=10; download=0; total=10"},
		{"sum beyond 64 bits", Profile{Up: 9e18, Down: 9e18}, "upload=9000000000000000000; download=223372036854775807"},
		{"largest limit", Profile{Limit: math.MaxInt64}, "upload=0; download=0; total=9223372036854775807"},
		{"less than nothing", Profile{Up: -1, Down: -1, Limit: -1}, "upload=0; download=0"},
		{"ended before 1970", Profile{Expires: time.Unix(-5, 0)}, "upload=0; download=0; expire=1"},
	} {
		if got := userinfo(c.p); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestHeadersSayWhatAppsShow(t *testing.T) {
	h := Headers(everything(t), Choice{Format: FormatClash})
	for name, want := range map[string]string{
		"Profile-Title":           "base64:" + base64.StdEncoding.EncodeToString([]byte("Сеть «Дом»")),
		"Announce":                "Maintenance on Friday",
		"Profile-Update-Interval": "6",
		"Profile-Web-Page-Url":    "https://sub.example.net/s/x",
		"Support-Url":             "https://t.me/example",
		"Subscription-Userinfo":   "upload=1073741824; download=5368709120; total=107374182400; expire=1800000000",
		"Cache-Control":           "private, no-store",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	bare := Headers(Profile{Standing: mesh.StandingExpired, SupportURL: "javascript:alert(1)", PageURL: "https://x/\n"}, Choice{Format: FormatPAC})
	for name, want := range map[string]string{
		"Profile-Title":           "meshctl",
		"Announce":                "base64:" + base64.StdEncoding.EncodeToString([]byte(noticeExpired)),
		"Profile-Update-Interval": "12",
		"Profile-Web-Page-Url":    "",
		"Support-Url":             "",
		"Content-Disposition":     `attachment; filename="meshctl.pac"; filename*=UTF-8''meshctl.pac`,
	} {
		if got := bare.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if h := Headers(everything(t), Choice{Format: FormatHTML}); h.Get("Content-Disposition") != "" || h.Get("Cache-Control") == "" {
		t.Errorf("page: got %v", h)
	}
}

// A member whose cell is compromised is told, whatever app reads it.
func TestGuestsAreTold(t *testing.T) {
	p := everything(t)
	p.Nodes[0].Guest = true
	if got := announcement(p); got != noticeGuest+"\nMaintenance on Friday" {
		t.Errorf("got %q", got)
	}
	p.Standing = mesh.StandingExpired
	if got := announcement(p); strings.Contains(got, noticeGuest) {
		t.Errorf("who is not served is told %q", got)
	}
}

// TestOldNewsHasADate: a server without a quorum says of when it speaks (S-10).
func TestOldNewsHasADate(t *testing.T) {
	p := everything(t)
	p.AsOf, p.Stale = time.Date(2026, 11, 30, 12, 3, 4, 0, time.UTC), true
	want := "⚠ 2026-11-30 12:03 UTC\nMaintenance on Friday"
	if got := announcement(p); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestIntervalsAreWholeHoursAndNeverNone(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 12, -1: 12, time.Second: 1, time.Hour: 1, time.Hour + 1: 2, 720 * time.Hour: 720} {
		if got := hours(d); got != want {
			t.Errorf("%v: got %d, want %d", d, got, want)
		}
	}
}

// FuzzHeaders checks that no text leaves its header, and that title and file
// name are read back as they were.
func FuzzHeaders(f *testing.F) {
	for _, s := range awkwardNames() {
		f.Add(s, "https://example.net/"+s)
	}
	f.Add("base64:aGk=", "")
	f.Fuzz(func(t *testing.T, text, link string) {
		h := Headers(Profile{Title: text, Announce: text, SupportURL: link, PageURL: link, Standing: mesh.StandingOK}, Choice{Format: FormatPlain})
		for name, values := range h {
			for _, v := range values {
				if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("%s: %q", name, v)
				}
			}
		}
		if text == "" || !utf8.ValidString(text) {
			return
		}
		if got := titleOf(t, h); got != text {
			t.Errorf("title: got %q, want %q", got, text)
		}
		_, params, err := mime.ParseMediaType(h.Get("Content-Disposition"))
		if err != nil || params["filename"] != text {
			t.Errorf("file name: got %q, %v, want %q", params["filename"], err, text)
		}
	})
}

func titleOf(t *testing.T, h http.Header) string {
	t.Helper()
	got := h.Get("Profile-Title")
	if rest, ok := strings.CutPrefix(got, "base64:"); ok {
		b, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return got
}
