package page

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// TestColoursHaveContrast: WCAG 2.2, 1.4.3 and 1.4.11: text 4.5 to 1, what only
// frames or fills 3 to 1, in both schemes.
func TestColoursHaveContrast(t *testing.T) {
	schemes := regexp.MustCompile(`:root\{[^}]*\}`).FindAllString(style, -1)
	if len(schemes) != 2 {
		t.Fatalf("%d colour schemes", len(schemes))
	}
	for i, scheme := range schemes {
		colour := map[string]float64{}
		for _, m := range regexp.MustCompile(`--(\w+):#([0-9a-f]{3,6})`).FindAllStringSubmatch(scheme, -1) {
			colour[m[1]] = luminance(t, m[2])
		}
		for pair, least := range map[[2]string]float64{
			{"text", "bg"}: 4.5, {"text", "card"}: 4.5, {"soft", "bg"}: 4.5, {"soft", "card"}: 4.5,
			{"main", "bg"}: 4.5, {"main", "card"}: 4.5, {"on", "main"}: 4.5, {"bad", "badbg"}: 4.5,
		} {
			a, okA := colour[pair[0]]
			b, okB := colour[pair[1]]
			if got := (max(a, b) + 0.05) / (min(a, b) + 0.05); !okA || !okB || got < least {
				t.Errorf("scheme %d: %s on %s: %.1f, want %.1f", i, pair[0], pair[1], got, least)
			}
		}
	}
}

// luminance of a colour, as WCAG defines it.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	n, err := strconv.ParseUint(hex, 16, 24)
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for i, weight := range []float64{0.0722, 0.7152, 0.2126} {
		c := float64(n>>(8*i)&0xff) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
