package mesh

import (
	"cmp"
	"slices"
	"strings"
)

// Nearest returns up to three of names that a person may have meant by ref, the
// likeliest first.
func Nearest(ref string, names []string) []string {
	type scored struct {
		name string
		far  int
	}
	var like []scored
	if len(ref) > MaxNameLen {
		return nil
	}
	folded := strings.ToLower(ref)
	for _, n := range names {
		if far := distance(folded, strings.ToLower(n)); far <= max(1, len(ref)/3) {
			like = append(like, scored{n, far})
		}
	}
	slices.SortFunc(like, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, s := range like[:min(3, len(like))] {
		out = append(out, s.name)
	}
	return out
}

// distance is the number of single changes between a and b, in bytes: one
// inserted, removed or replaced, or two neighbours swapped (optimal string
// alignment: Damerau, CACM 7(3), 1964).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
