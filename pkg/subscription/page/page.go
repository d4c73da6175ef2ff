// Package page makes the page of a subscription that people look at. It needs no
// script, no font and no picture from elsewhere, and its policy forbids them.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"

	"github.com/meshctl/meshctl/pkg/qr"
	"github.com/meshctl/meshctl/pkg/subscription"
)

var (
	//go:embed page.html
	source string
	//go:embed page.css
	style string
)

var pageTemplate = template.Must(template.New("page").Parse(source))

// Request is who looks, and at what.
type Request struct {
	Link     string // of the subscription, with its secret
	Language string // asked for by name, "" when it was not
	Accept   string // the header Accept-Language
}

// Render makes the page. Header is what goes with it beside its type.
func Render(p subscription.Profile, r Request) (subscription.Body, http.Header, error) {
	code, err := qr.New(r.Link)
	if err != nil {
		return subscription.Body{}, nil, err
	}
	v := newView(p, r, code)
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, v); err != nil {
		return subscription.Body{}, nil, fmt.Errorf("subscription: page: %w", err)
	}
	h := http.Header{}
	h.Set("Content-Security-Policy", policy())
	h.Set("Content-Language", v.Lang)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	return subscription.Body{ContentType: "text/html; charset=utf-8", Data: b.Bytes()}, h, nil
}

// policy allows the one style sheet that is in the page and the empty icon, and
// nothing else.
func policy() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; img-src data:; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
