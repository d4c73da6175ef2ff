package subscription

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// defaultInterval is how often a client looks that was not told.
const defaultInterval = 12 * time.Hour

// title is what clients show.
func (p Profile) title() string {
	if p.Title == "" {
		return "meshctl"
	}
	return p.Title
}

// Headers are those that go with the document, but for its type: what apps show
// beside the nodes, and that no one on the way may keep it. The page for people
// needs no headers for apps.
func Headers(p Profile, c Choice) http.Header {
	h := http.Header{}
	h.Set("Cache-Control", "private, no-store")
	h.Set("Vary", "User-Agent, Accept")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if c.Format == FormatHTML {
		return h
	}
	h.Set("Content-Disposition", disposition(p.title()+extension(c.Format)))
	h.Set("Subscription-Userinfo", userinfo(p))
	h.Set("Profile-Update-Interval", strconv.FormatInt(hours(p.Interval), 10))
	h.Set("Profile-Title", headerText(p.title()))
	if announce := announcement(p); announce != "" {
		h.Set("Announce", headerText(announce))
	}
	if link, ok := headerURL(p.PageURL); ok {
		h.Set("Profile-Web-Page-Url", link)
	}
	if link, ok := headerURL(p.SupportURL); ok {
		h.Set("Support-Url", link)
	}
	return h
}

// announcement is what an app shows beside the nodes: what the member must know
// first, then what the operator has to say.
func announcement(p Profile) string {
	var out []string
	if n := notice(p, p.Nodes, nil); n != "" {
		out = append(out, n)
	}
	if p.Guest() {
		out = append(out, noticeGuest)
	}
	if p.Stale {
		out = append(out, "⚠ "+p.AsOf.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if p.Announce != "" {
		out = append(out, p.Announce)
	}
	return strings.Join(out, "\n")
}

// userinfo is bytes and seconds as decimal numbers that fit 64 bits with a
// sign, also when an app adds them. What has no end is not named: apps read 0
// as used up, or as the year 1970.
func userinfo(p Profile) string {
	most := int64(math.MaxInt64)
	if p.Limit > 0 {
		most = p.Limit
	}
	up := min(max(p.Up, 0), most)
	down := min(max(p.Down, 0), most-up)
	s := fmt.Sprintf("upload=%d; download=%d", up, down)
	if p.Limit > 0 {
		s += fmt.Sprintf("; total=%d", p.Limit)
	}
	if !p.Expires.IsZero() {
		s += fmt.Sprintf("; expire=%d", max(p.Expires.Unix(), 1))
	}
	return s
}

// hours rounds up, since apps take whole ones.
func hours(d time.Duration) int64 {
	if d <= 0 {
		d = defaultInterval
	}
	return int64((d + time.Hour - 1) / time.Hour)
}

// headerText is s, encoded as apps expect it where a header cannot hold it.
func headerText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return "base64:" + base64.StdEncoding.EncodeToString([]byte(s))
		}
	}
	if strings.TrimSpace(s) != s || strings.HasPrefix(s, "base64:") {
		return "base64:" + base64.StdEncoding.EncodeToString([]byte(s))
	}
	return s
}

// headerURL lets pass what an app can open and a header can hold.
func headerURL(s string) (string, bool) {
	u, err := url.Parse(s)
	if err != nil || s == "" {
		return "", false
	}
	switch u.Scheme {
	case "https", "http", "mailto", "tg":
		return u.String(), headerText(u.String()) == u.String()
	}
	return "", false
}

// disposition names the file for those who know RFC 8187, and an ASCII form of
// it for others (RFC 6266).
func disposition(name string) string {
	ascii := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\/%`, r) {
			return '_'
		}
		return r
	}, name)
	return fmt.Sprintf(`attachment; filename="%s"; filename*=UTF-8''%s`, ascii, escape(strings.ToValidUTF8(name, "\uFFFD")))
}

// extension of a file. Apps take the name of a configuration's file for that of
// the profile, so these have none.
func extension(f Format) string {
	switch f {
	case FormatPAC:
		return ".pac"
	case FormatCurl:
		return ".sh"
	case FormatCA:
		return ".pem"
	case FormatApple:
		return ".mobileconfig"
	}
	return ""
}
