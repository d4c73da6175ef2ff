package subscription

import (
	"slices"
	"strconv"
	"strings"
)

// Names that the formats themselves use. A node of such a name gets a number.
const (
	groupProxy = "Proxy"
	groupAuto  = "Auto"
	tagDirect  = "direct"
	tagDNS     = "dns-out"
)

func reserved() []string {
	return []string{
		groupProxy, groupAuto, tagDirect, tagDNS,
		"DIRECT", "REJECT", "REJECT-DROP", "PASS", "COMPATIBLE", "GLOBAL", // Clash
	}
}

// named returns nodes with names that are valid UTF-8, not empty, none of the
// formats' own, and all different: twins get a number. Other names stay.
func named(nodes []Node) []Node {
	out := slices.Clone(nodes)
	taken := map[string]bool{}
	for _, r := range reserved() {
		taken[r] = true
	}
	var again []int
	for i := range out {
		out[i].Name = validName(out[i].Name)
		if taken[out[i].Name] {
			again = append(again, i)
		}
		taken[out[i].Name] = true
	}
	next := map[string]int{}
	for _, i := range again {
		base := out[i].Name
		for n := max(next[base], 2); taken[out[i].Name]; n++ {
			out[i].Name, next[base] = base+" "+strconv.Itoa(n), n+1
		}
		taken[out[i].Name] = true
	}
	return out
}

func validName(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.TrimSpace(s) == "" {
		return "node"
	}
	return s
}
