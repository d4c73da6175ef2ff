package alert

import (
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// summarise keeps messages few where much of one kind happens: of many at once the
// last that is told stands for the rest, and of many in a row those beyond the
// budget wait, and are told together. The changes themselves are all kept.
func summarise(alerts map[string]mesh.Alert, out []Change, now time.Time) []Change {
	left := budgets(alerts, now)
	groups := map[group][]int{}
	for i, c := range out {
		if c.Tell != "" {
			g := group{c.Alert.Rule, c.Tell}
			groups[g] = append(groups[g], i)
		}
	}
	for g, list := range groups {
		if g.tell == mesh.NoticeAlert && left(g.rule) <= 0 {
			for _, i := range list {
				out[i].Tell, out[i].Alert.Told = "", alerts[out[i].Alert.ID].Told
			}
			continue
		}
		if len(list) > foldOver {
			out[list[foldOver-1]].More = len(list) - foldOver
			for _, i := range list[foldOver:] {
				out[i].Tell = ""
			}
		}
	}
	return out
}

type group struct {
	rule string
	tell mesh.NoticeKind
}

// budgets says how many messages of a rule may be sent now. What was told is in
// the alerts, so that the next leader counts alike.
func budgets(alerts map[string]mesh.Alert, now time.Time) func(rule string) int {
	told := map[string]map[time.Time]bool{}
	used := map[string]int{}
	for _, a := range alerts {
		if a.Told.IsZero() || now.Sub(a.Told) >= budgetTime {
			continue
		}
		if told[a.Rule] == nil {
			told[a.Rule] = map[time.Time]bool{}
		}
		// Those of one moment were told in at most foldOver messages.
		told[a.Rule][a.Told] = true
		used[a.Rule]++
	}
	return func(rule string) int { return budget - min(used[rule], foldOver*len(told[rule])) }
}
