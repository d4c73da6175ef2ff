package alert

import (
	"fmt"
	"strings"
	"time"
)

// Metric is the number of alerts that fire, by rule, as every management server
// shows it.
const Metric = "meshctl_mgmt_alerts"

// Prometheus renders the table as a file of rules for Prometheus. What only a look
// at the state can tell is there by Metric, and so already damped.
func Prometheus() string {
	var b strings.Builder
	b.WriteString(`# Generated from the rules of meshctl (pkg/alert): do not edit.
# The first two tell what meshctl itself cannot: that it is not there.
groups:
  - name: meshctl
    rules:
`)
	absent := []Rule{
		{Name: "server-down", Severity: "critical", What: "a management server does not answer Prometheus", For: time.Minute,
			Advice: "look at its machine", Expr: `up{job="meshctl-mgmt"} == 0`},
		{Name: "no-server", Severity: "critical", What: "no management server is seen at all", For: time.Minute,
			Advice: "name the job meshctl-mgmt, or look at the machines", Expr: "absent(" + Metric + ")"},
	}
	for _, r := range append(absent, Rules()...) {
		r.render(&b)
	}
	return b.String()
}

func (r Rule) render(b *strings.Builder) {
	expr, wait := r.Expr, r.For
	if expr == "" {
		expr, wait = fmt.Sprintf("max by (rule) (%s{rule=%q}) > 0", Metric, r.Name), 0
	}
	fmt.Fprintf(b, `      - alert: %s
        expr: %s
        for: %s
        labels:
          severity: %s
          rule: %s
        annotations:
          summary: %s
`, title(r.Name), quote(expr), seconds(wait), r.Severity, r.Name, quote(r.What))
	if r.Advice != "" {
		fmt.Fprintf(b, "          description: %s\n", quote(r.Advice))
	}
}

// quote is a YAML scalar.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }

// title is core-lost as MeshctlCoreLost.
func title(name string) string {
	words := strings.Split(name, "-")
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return "Meshctl" + strings.Join(words, "")
}
