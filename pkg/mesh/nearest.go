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

// distance is Levenshtein's, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
