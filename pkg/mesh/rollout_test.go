package mesh

import (
	"strings"
	"testing"
	"time"
)

func entryConfig(suffixes ...ServerName) NodeConfig { return NodeConfig{Suffixes: suffixes} }

// step is one decision about a group, and what it is to lead to.
type step struct {
	want   NodeConfig
	nodes  []GroupNode
	after  time.Duration // since the step before
	canary string
	runs   int    // suffixes that all run
	parked string // part of the reason; "" for nothing parked
}

// H-06
func TestRollout(t *testing.T) {
	one, two, three := entryConfig("a"), entryConfig("a", "b"), entryConfig("a", "b", "c")
	on := func(node string, runs int64) GroupNode { return GroupNode{Node: node, Connected: true, Runs: runs} }
	refused := func(node string, rev int64) GroupNode {
		return GroupNode{Node: node, Connected: true, Runs: 100, Refused: rev, Failure: "cannot bind"}
	}
	gone := GroupNode{Node: "entry/a", Runs: 100}
	idle := []GroupNode{on("entry/b", 100), on("entry/a", 100)}
	first := step{want: one, runs: 1}
	tests := map[string][]step{
		"a group without nodes has what is wanted": {first, {want: two, runs: 2}},
		"nobody is connected: it waits":            {first, {want: two, nodes: []GroupNode{gone}, runs: 1}, {want: two, nodes: idle, runs: 1, canary: "entry/a"}},
		"the canary runs it, so do all":            {first, {want: two, nodes: idle, runs: 1, canary: "entry/a"}, {want: two, nodes: []GroupNode{on("entry/a", 101)}, runs: 2}},
		"the canary refuses it: parked, and another is tried": {
			first, {want: two, nodes: idle, runs: 1, canary: "entry/a"},
			{want: two, nodes: []GroupNode{refused("entry/a", 101), on("entry/b", 100)}, runs: 1, parked: "entry/a refused it: cannot bind"},
			{want: two, nodes: idle, runs: 1, parked: "refused"},
			{want: three, nodes: idle, runs: 1, parked: "refused", canary: "entry/a"},
			{want: three, nodes: []GroupNode{on("entry/a", 102)}, runs: 3},
		},
		"what was parked may be tried again after it was taken back": {
			first, {want: two, nodes: idle, runs: 1, canary: "entry/a"},
			{want: two, nodes: []GroupNode{refused("entry/a", 101)}, runs: 1, parked: "refused"},
			{want: one, nodes: idle, runs: 1}, {want: two, nodes: idle, runs: 1, canary: "entry/a"},
		},
		"the wish changes during the trial": {
			first, {want: two, nodes: idle, runs: 1, canary: "entry/a"}, {want: three, nodes: idle, runs: 1, canary: "entry/a"},
			{want: one, nodes: idle, runs: 1},
		},
		"the canary says nothing": {
			first, {want: two, nodes: idle, runs: 1, canary: "entry/a"}, {want: two, nodes: idle, after: 29 * time.Second, runs: 1, canary: "entry/a"},
			{want: two, nodes: idle, after: time.Second, runs: 1, parked: "did not say within 30s"},
		},
		"the canary goes away, and so does the next": {
			first, {want: two, nodes: idle, runs: 1, canary: "entry/a"},
			{want: two, nodes: []GroupNode{gone, on("entry/b", 100)}, after: 30 * time.Second, runs: 1, canary: "entry/b"},
			{want: two, nodes: []GroupNode{gone, {Node: "entry/b"}}, after: 30 * time.Second, runs: 1, parked: "entry/a and entry/b went away"},
		},
		"the only node goes away and comes back": {
			first, {want: two, nodes: []GroupNode{on("entry/a", 100)}, runs: 1, canary: "entry/a"},
			{want: two, nodes: []GroupNode{gone}, after: 30 * time.Second, runs: 1},
			{want: two, nodes: []GroupNode{on("entry/a", 100)}, runs: 1, canary: "entry/a"},
			{want: two, nodes: []GroupNode{on("entry/a", 101)}, runs: 2},
		},
		"the canary is removed": {
			first, {want: two, nodes: idle, runs: 1, canary: "entry/a"},
			{want: two, nodes: []GroupNode{on("entry/b", 100)}, runs: 1, canary: "entry/b"},
		},
		"one that does not run what it should is not chosen": {
			first, {want: two, nodes: []GroupNode{on("entry/a", 7), on("entry/c", 100)}, runs: 1, canary: "entry/c"},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			r := Rollout{Group: EntriesGroup}
			now := time.Now()
			for i, s := range steps {
				now = now.Add(s.after)
				r = r.Next(s.want, s.nodes, 100, now, 30*time.Second)
				if r.Canary != s.canary || len(r.Running.Suffixes) != s.runs || !strings.Contains(r.Reason, s.parked) || (s.parked == "") != (r.Parked.Revision == 0) {
					t.Fatalf("step %d: %+v, want %+v", i, r, s)
				}
				if again := r.Next(s.want, s.nodes, 100, now, 30*time.Second); again.Canary != r.Canary || again.Reason != r.Reason {
					t.Fatalf("step %d: deciding again gives %+v after %+v", i, again, r)
				}
				for _, n := range s.nodes {
					if got := r.For(n.Node); (got.Revision == r.Running.Revision) == (n.Node == s.canary) {
						t.Errorf("step %d: %s gets revision %d", i, n.Node, got.Revision)
					}
				}
			}
		})
	}
}

func TestPathsThatCoresAnswer(t *testing.T) {
	now := time.Now()
	var c Cell
	c.RotatePaths(now, time.Hour)
	running := CellConfig(c, nil, now)
	first := c.Paths[0].WebSocket
	c.RotatePaths(now, time.Hour)
	if p, ok := running.Answers(c, now); !ok || p.WebSocket != first {
		t.Errorf("got %+v, want the paths of before the rotation that cores do not run yet", p)
	}
	if p, ok := CellConfig(c, nil, now).Answers(c, now); !ok || p != c.Paths[1] {
		t.Errorf("got %+v, want the newest", p)
	}
	if p, ok := running.Answers(c, now.Add(time.Hour)); ok {
		t.Errorf("got %+v, which have ended", p)
	}
	if p, ok := (NodeConfig{}).Answers(c, now); ok {
		t.Errorf("got %+v of cores that answer none", p)
	}
}
