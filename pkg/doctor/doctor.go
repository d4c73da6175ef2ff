// Package doctor looks for what is wrong on this machine before or while a role
// runs on it, and says how to mend it. It changes nothing.
package doctor

import (
	"context"
	"sync"
	"time"
)

// Status grades a finding.
type Status string

// Statuses. Only Fail keeps a role from working.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Finding is what one check found.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Mend   string `json:"mend,omitzero"` // what to do
}

// Check looks at one thing.
type Check struct {
	Name string
	Run  func(ctx context.Context) Finding
}

// patience bounds each check.
const patience = 10 * time.Second

// Examine runs the checks at once and returns their findings in order.
func Examine(ctx context.Context, checks []Check) []Finding {
	out := make([]Finding, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			out[i] = c.Run(ctx)
			out[i].Check = c.Name
		})
	}
	wg.Wait()
	return out
}

// Worst is the gravest status among the findings.
func Worst(findings []Finding) Status {
	worst := OK
	for _, f := range findings {
		if f.Status == Fail || f.Status == Warn && worst == OK {
			worst = f.Status
		}
	}
	return worst
}

func ok(detail string) Finding         { return Finding{Status: OK, Detail: detail} }
func warn(detail, mend string) Finding { return Finding{Status: Warn, Detail: detail, Mend: mend} }
func fail(detail, mend string) Finding { return Finding{Status: Fail, Detail: detail, Mend: mend} }
