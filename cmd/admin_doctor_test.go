package cmd

import (
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
)

func TestRecordsOfClustersArePrinted(t *testing.T) {
	t.Parallel()
	answers := ofClusters(admin.DNSRecords{Records: []admin.DNSRecord{
		{Name: "in.example.net", Type: "A", Want: []string{"203.0.113.1", "203.0.113.2"}, Found: []string{"203.0.113.2"}},
		{Name: "in.example.net", Type: "AAAA", Want: []string{"2001:db8::1"}, Fault: "there is no such record"},
		{Name: "eu.example.net", Type: "CNAME", Want: []string{"lb.cloud.example"}, Found: []string{"203.0.113.7"}},
		{Name: "us.example.net", Type: "CNAME", Want: []string{"lb.cloud.example"}, Found: []string{"198.51.100.1"}, Fault: "it leads to 198.51.100.1, where no entry of the cluster is"},
	}})
	var out strings.Builder
	if err := printSurvey(&out, answers); err != nil {
		t.Fatal(err)
	}
	want := `in.example.net (entries in Kubernetes, A): ok
  leads to: 203.0.113.2
  make: in.example.net. A 203.0.113.1
in.example.net (entries in Kubernetes, AAAA): wrong
  leads to: nowhere
  wrong: there is no such record
  make: in.example.net. AAAA 2001:db8::1
eu.example.net (entries in Kubernetes, CNAME): ok
  leads to: 203.0.113.7
us.example.net (entries in Kubernetes, CNAME): wrong
  leads to: 198.51.100.1
  wrong: it leads to 198.51.100.1, where no entry of the cluster is
  make: us.example.net. CNAME lb.cloud.example.
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	if err := wrongNames(answers); err == nil || !strings.Contains(err.Error(), "in.example.net, us.example.net") {
		t.Errorf("got %v", err)
	}
}
