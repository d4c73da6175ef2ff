package qr

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const link = "https://sub.example.net/s/0123456789abcdefghijklmnopqrstuv"

// The three drawings are of the same modules, with the same quiet zone.
func TestTheDrawingsAgree(t *testing.T) {
	c, err := New(link)
	if err != nil {
		t.Fatal(err)
	}
	n := len(c.modules) + 2*quiet
	want := func(x, y int) bool {
		x, y = x-quiet, y-quiet
		return x >= 0 && y >= 0 && x < len(c.modules) && y < len(c.modules) && c.modules[y][x]
	}
	b, err := c.PNG(3)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil || img.Bounds().Dx() != 3*n {
		t.Fatalf("png of %v for %d modules: %v", img.Bounds(), n, err)
	}
	svg, lines := fromSVG(t, c.SVG("a code"), n), fromTerminal(c.Terminal())
	for y := range n {
		for x := range n {
			r, _, _, _ := img.At(3*x+1, 3*y+1).RGBA()
			if dark := want(x, y); (r == 0) != dark || svg[y][x] != dark || lines[y][x] != dark {
				t.Fatalf("module %d, %d: want dark %v: png %v svg %v terminal %v", x, y, dark, r == 0, svg[y][x], lines[y][x])
			}
		}
	}
}

func fromSVG(t *testing.T, s string, n int) [][]bool {
	t.Helper()
	var doc struct {
		Label string `xml:"aria-label,attr"`
		Paths []struct {
			D string `xml:"d,attr"`
		} `xml:"path"`
	}
	if err := xml.Unmarshal([]byte(s), &doc); err != nil || len(doc.Paths) != 2 || doc.Label != "a code" {
		t.Fatalf("%v: %.200s", err, s)
	}
	out := make([][]bool, n)
	for i := range out {
		out[i] = make([]bool, n)
	}
	for _, m := range regexp.MustCompile(`M(\d+) (\d+)h(\d+)`).FindAllStringSubmatch(doc.Paths[1].D, -1) {
		var v [3]int
		for i := range v {
			v[i], _ = strconv.Atoi(m[i+1]) // digits
		}
		for x := range v[2] {
			out[v[1]][v[0]+x] = true
		}
	}
	return out
}

func fromTerminal(s string) [][]bool {
	var out [][]bool
	for line := range strings.Lines(s) {
		line = strings.TrimSuffix(strings.TrimPrefix(line, "\x1b[30;107m"), "\x1b[0m\n")
		var upper, lower []bool
		for _, r := range line {
			upper = append(upper, r == '█' || r == '▀')
			lower = append(lower, r == '█' || r == '▄')
		}
		out = append(out, upper, lower)
	}
	return out
}

func TestTextsThatFitNoCode(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("secret", 1000)} {
		if _, err := New(text); !errors.Is(err, mesh.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}

func TestALabelCannotLeaveItsAttribute(t *testing.T) {
	c, err := New(link)
	if err != nil {
		t.Fatal(err)
	}
	label := `"><script>'&`
	var doc struct {
		Label string `xml:"aria-label,attr"`
	}
	if err := xml.Unmarshal([]byte(c.SVG(label)), &doc); err != nil || doc.Label != label {
		t.Errorf("label %q: %v", doc.Label, err)
	}
}
