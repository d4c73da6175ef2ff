package client

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshctl/meshctl/pkg/kube"
)

// around is how many lines of what stays are shown about a change.
const around = 3

// diff shows what becomes of an object, unified, without what only the cluster
// writes. nil is an object that is not there. "" is no difference.
func diff(before, after *unstructured.Unstructured) (string, error) {
	a, err := text(before)
	if err != nil {
		return "", err
	}
	b, err := text(after)
	if err != nil {
		return "", err
	}
	return unified(a, b), nil
}

// text is an object as lines of YAML.
func text(o *unstructured.Unstructured) ([]string, error) {
	if o == nil {
		return nil, nil
	}
	o = o.DeepCopy()
	delete(o.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	out, err := kube.YAML([]kube.Object{o.Object})
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(printable(out, maxBody), "\n"), "\n"), nil
}

// An edit is one line of a diff: ' ' stays, '-' goes, '+' comes.
type edit struct {
	op   byte
	line string
}

// unified writes the edits with some lines around each.
func unified(a, b []string) string {
	edits := edits(a, b)
	var out strings.Builder
	for from := 0; ; {
		first := next(edits, from)
		if first < 0 {
			return out.String()
		}
		start, end := max(first-around, from), first+1
		for {
			n := next(edits, end)
			if n < 0 || n > end+2*around {
				break
			}
			end = n + 1
		}
		stop := min(end+around, len(edits))
		hunk(&out, edits, start, stop)
		from = stop
	}
}

// next is where the first change from an index on is, -1 for none.
func next(edits []edit, from int) int {
	for i := from; i < len(edits); i++ {
		if edits[i].op != ' ' {
			return i
		}
	}
	return -1
}

func hunk(out *strings.Builder, edits []edit, start, stop int) {
	oldLine, newLine := count(edits[:start], '-'), count(edits[:start], '+')
	oldLen, newLen := count(edits[start:stop], '-'), count(edits[start:stop], '+')
	if oldLen > 0 {
		oldLine++
	}
	if newLen > 0 {
		newLine++
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", oldLine, oldLen, newLine, newLen)
	for _, e := range edits[start:stop] {
		out.WriteByte(e.op)
		out.WriteString(e.line)
		out.WriteByte('\n')
	}
}

// count has the lines of one side.
func count(edits []edit, side byte) int {
	n := 0
	for _, e := range edits {
		if e.op == side || e.op == ' ' {
			n++
		}
	}
	return n
}

// maxCells bounds the work for one diff.
const maxCells = 4 << 20

// edits make a into b. They are the fewest, by the longest common subsequence, as long
// as that is affordable: objects of ours have some hundred lines.
func edits(a, b []string) []edit {
	if len(a)*len(b) > maxCells {
		return append(all('-', a), all('+', b)...)
	}
	length := make([][]int32, len(a)+1)
	for i := range length {
		length[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	out := make([]edit, 0, len(a)+len(b))
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || length[i+1][j] >= length[i][j+1]):
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}

func all(op byte, lines []string) []edit {
	out := make([]edit, len(lines))
	for i, line := range lines {
		out[i] = edit{op, line}
	}
	return out
}
