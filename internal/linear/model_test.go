package linear

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// verb is what was asked of an object, or of a name.
type verb string

const (
	create  verb = "create"  // with a first word
	extend  verb = "extend"  // by a word: compare-and-swap
	remove  verb = "remove"  //
	read    verb = "read"    // linearizable
	claim   verb = "claim"   // create an object with that name
	release verb = "release" // remove that object
	resolve verb = "resolve" // which object has that name
)

type input struct {
	object string // that the history is of
	verb   verb
	arg    string // a word, or the id of an object
}

// output says what came back.
type output struct {
	unknown bool   // nobody knows: it may be made at any later time
	refused bool   // exists, or not found
	value   string // what was there before, or is there
}

const forever = math.MaxInt64

// model is one object: its words, or the holder of a name; "" is none. Words
// begin with a space, so that no object that exists is "".
func model() porcupine.Model {
	return porcupine.Model{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			of := map[string][]porcupine.Operation{}
			for _, op := range all {
				name := op.Input.(input).object
				of[name] = append(of[name], op)
			}
			return slices.Collect(maps.Values(of))
		},
		Init: func() any { return "" },
		Step: func(st, in, out any) (bool, any) { return step(st.(string), in.(input), out.(output)) },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v → %+v", in, out)
		},
	}
}

// step says whether a state allows that answer, and the state after it.
func step(was string, in input, out output) (bool, string) {
	may, next := true, was // whether it is made in this state, and what then is
	switch in.verb {
	case create, claim:
		may, next = was == "", in.arg
	case extend:
		may, next = was != "", was+in.arg
	case remove:
		may, next = was != "", ""
	case release:
		may, next = was == in.arg, ""
	case read, resolve:
		return was == out.value, was
	}
	switch {
	case out.unknown && !may, out.refused:
		return out.unknown || !may, was
	case in.verb == extend && !out.unknown:
		return may && was == out.value, next
	}
	return may, next
}

// check has the history judged, and names a drawing of it if it is refused.
func check(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(model(), history, 8*time.Minute)
	if result == porcupine.Ok {
		return
	}
	f, err := os.CreateTemp("", "linear-*.html")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := porcupine.Visualize(model(), info, f); err != nil {
		t.Error(err)
	}
	t.Errorf("the history is not linearizable (%s): see %s", result, filepath.Clean(f.Name()))
}

func op(call, end int64, in input, out output) porcupine.Operation {
	return porcupine.Operation{Call: call, Return: end, Input: in, Output: out}
}

func TestTheCheckBites(t *testing.T) {
	made := op(0, 1, input{"x", create, " a"}, output{})
	more := op(2, 3, input{"x", extend, " b"}, output{value: " a"})
	lost := op(2, forever, input{"x", extend, " b"}, output{unknown: true})
	reads := func(at int64, v string) porcupine.Operation {
		return op(at, at+1, input{"x", read, ""}, output{value: v})
	}
	held := op(0, 1, input{"n", claim, "1"}, output{})
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"one after another":                {[]porcupine.Operation{made, more, reads(4, " a b")}, true},
		"a stale read":                     {[]porcupine.Operation{made, more, reads(4, " a")}, false},
		"a lost acknowledged write":        {[]porcupine.Operation{made, more, op(4, 5, input{"x", extend, " c"}, output{value: " a"})}, false},
		"a change made twice":              {[]porcupine.Operation{made, more, reads(4, " a b b")}, false},
		"an unknown one made late":         {[]porcupine.Operation{made, lost, reads(4, " a"), reads(6, " a b")}, true},
		"an unknown one never made":        {[]porcupine.Operation{made, lost, reads(4, " a")}, true},
		"an unknown one undone":            {[]porcupine.Operation{made, lost, reads(4, " a b"), reads(6, " a")}, false},
		"a refused create that was made":   {[]porcupine.Operation{op(0, 1, input{"x", create, " a"}, output{refused: true})}, false},
		"a name held twice":                {[]porcupine.Operation{held, op(2, 3, input{"n", claim, "2"}, output{})}, false},
		"a name that was given back":       {[]porcupine.Operation{held, op(2, 3, input{"n", release, "1"}, output{}), op(4, 5, input{"n", claim, "2"}, output{})}, true},
		"a name that leads to nobody yet":  {[]porcupine.Operation{held, op(2, 3, input{"n", resolve, ""}, output{})}, false},
		"a refused claim of what was free": {[]porcupine.Operation{op(0, 1, input{"n", claim, "1"}, output{refused: true})}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := porcupine.CheckOperations(model(), c.history); got != c.want {
				t.Errorf("linearizable: got %v, want %v", got, c.want)
			}
		})
	}
}
