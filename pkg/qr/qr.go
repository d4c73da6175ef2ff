// Package qr draws QR codes (ISO/IEC 18004) as people look at them: in a
// terminal, on a page, as a picture.
package qr

import (
	"fmt"
	"strings"

	qrcode "github.com/skip2/go-qrcode"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// quiet is how many light modules are around a code.
const quiet = 4

// Code is a drawn text. The zero value holds nothing.
type Code struct {
	text    string
	modules [][]bool // true is dark; without a margin
}

// New encodes text with error correction of level M, which bears 15 % of
// damage. It returns ErrInvalid for a text that is empty or too long for any
// code, about 2,300 bytes. The error does not hold the text: it may be secret.
func New(text string) (Code, error) {
	q, err := qrcode.New(text, qrcode.Medium)
	if err != nil {
		return Code{}, fmt.Errorf("qr: encode %d bytes: %w: %w", len(text), err, mesh.ErrInvalid)
	}
	q.DisableBorder = true
	return Code{text: text, modules: q.Bitmap()}, nil
}

// PNG returns a picture with that many pixels to a module, its margin included.
func (c Code) PNG(scale int) ([]byte, error) {
	b, err := qrcode.Encode(c.text, qrcode.Medium, -max(scale, 1)) // negative: pixels to a module
	if err != nil {
		return nil, fmt.Errorf("qr: draw: %w", err)
	}
	return b, nil
}

// SVG returns an element to be put into a page, dark on light whatever the
// colours of the page. label is what is read aloud instead.
func (c Code) SVG(label string) string {
	n := len(c.modules) + 2*quiet
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h%dv%dH0z"/><path fill="#000" d="`,
		n, n, attribute(label), n, n)
	for y, row := range c.modules {
		for x := 0; x < len(row); x++ {
			from := x
			for x < len(row) && row[x] {
				x++
			}
			if x > from {
				fmt.Fprintf(&b, "M%d %dh%dv1h-%dz", from+quiet, y+quiet, x-from, x-from)
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return b.String()
}

// attribute escapes text for a quoted attribute of XML.
func attribute(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}

// Terminal returns lines of half blocks, two modules to a character, for a
// terminal of whatever colours: light is drawn, dark is left out, in explicit
// black on white.
func (c Code) Terminal() string {
	n := len(c.modules) + 2*quiet
	dark := func(x, y int) bool {
		x, y = x-quiet, y-quiet
		return x >= 0 && y >= 0 && y < len(c.modules) && x < len(c.modules) && c.modules[y][x]
	}
	var b strings.Builder
	for y := 0; y < n; y += 2 {
		b.WriteString("\x1b[30;107m")
		for x := range n {
			b.WriteString(half(dark(x, y), dark(x, y+1)))
		}
		b.WriteString("\x1b[0m\n")
	}
	return b.String()
}

func half(upper, lower bool) string {
	switch {
	case upper && lower:
		return "█"
	case upper:
		return "▀"
	case lower:
		return "▄"
	}
	return " "
}
