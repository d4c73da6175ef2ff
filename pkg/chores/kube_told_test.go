package chores

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const kubeSecret = "eyJhbGciOi.token-of-a-cluster.c2ln"

func orderedKube(t testing.TB) *controlpb.KubeOrder {
	t.Helper()
	w, err := workProto(kube.Work{Cluster: "kube-a", Release: 2, API: kube.API{Credential: kubeSecret}})
	if err != nil {
		t.Fatal(err)
	}
	return &controlpb.KubeOrder{Clusters: []*controlpb.KubeWork{w}}
}

// What comes of a cluster has words of whoever can write there.
func TestWhatTheChildSaysOfAClusterIsChecked(t *testing.T) {
	now := time.Now().UTC()
	long := strings.Repeat("ü", 5000)
	o := kube.Observation{
		Cluster: "kube-other", Release: 9, At: now.Add(time.Hour), Failure: "made up", Detail: "Bearer " + kubeSecret + "\x1b[2J" + long, Version: long,
		Desired: -1, Stuck: true, Why: "pod a: crash\n" + kubeSecret + "\n\x1b[31mred\n" + long,
		Problems: []string{kubeSecret, long}, Drift: []string{kubeSecret},
		Conflicts: []mesh.KubeConflict{{Object: kubeSecret, Field: long, Manager: "a\nb"}},
		Addresses: []mesh.KubeAddress{{Host: "192.0.2.1", Port: 443, Source: "loadbalancer", Up: true, Why: kubeSecret}, {Host: "x", Port: 0}, {Port: 1}},
	}
	for range mesh.MaxKubePods + 1 {
		o.Pods = append(o.Pods, mesh.KubePod{Name: "a" + kubeSecret, Reason: kubeSecret, Restarts: -2})
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := kubeOutcomeOf(&controlpb.KubeOutcome{Cluster: "kube-a", Release: 2, Json: text}, orderedKube(t), now)
	if !ok || got.Cluster != "kube-a" || got.Release != 2 || got.At != now || got.Failure != kube.Other || got.Desired != 0 || len(got.Pods) != mesh.MaxKubePods {
		t.Errorf("%v, %+v", ok, got.Failure)
	}
	if len(got.Addresses) != 1 || got.Addresses[0] != (mesh.KubeAddress{Host: "192.0.2.1", Port: 443, Source: "loadbalancer"}) {
		t.Errorf("%+v", got.Addresses)
	}
	if !strings.HasPrefix(got.Why, "pod a: crash\n[redacted]\n [31mred\n") || len(got.Why) > maxKubeWhy || len(got.Problems[1]) > maxDetail+3 || strings.Contains(got.Conflicts[0].Manager, "\n") {
		t.Errorf("%q", got.Why[:60])
	}
	clean(t, got)
	for name, bad := range map[string]*controlpb.KubeOutcome{
		"a cluster that is not ordered": {Cluster: "kube-b", Json: text},
		"no JSON":                       {Cluster: "kube-a", Json: []byte("{")},
		"too much":                      {Cluster: "kube-a", Json: make([]byte, maxKubeJSON+1)},
		"nothing":                       nil,
	} {
		if _, ok := kubeOutcomeOf(bad, orderedKube(t), now); ok {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestWhatTheChildAnswersIsChecked(t *testing.T) {
	asked := &controlpb.KubeAsk{Api: &controlpb.KubeAPI{Credential: kubeSecret}}
	a := kube.Answer{Failure: "x", Detail: kubeSecret, Missing: []string{kubeSecret + "\n"}}
	for range maxKubeList + 1 {
		a.Changes = append(a.Changes, kube.Change{Object: "Service/x", Action: "x", Diff: "-" + kubeSecret + "\n" + strings.Repeat("+", 7000)})
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := kubeAnswerOf(text, asked)
	all := 0
	for _, c := range got.Changes {
		all += len(c.Diff)
	}
	if !ok || got.Failure != kube.Other || len(got.Changes) != maxKubeList || got.Changes[0].Action != kube.Update || all > maxKubePlan {
		t.Errorf("%v, %d changes, %d bytes of them", ok, len(got.Changes), all)
	}
	clean(t, got)
	a.Changes[0].Diff = strings.Repeat("x", 2*maxKubeJSON)
	if text, err = answerJSON(a); err != nil || len(text) > maxKubeJSON {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func clean(t *testing.T, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil || strings.Contains(string(text), kubeSecret) || strings.Contains(string(text), `\u001b`) || !utf8.Valid(text) {
		t.Errorf("%v, %.300s", err, text)
	}
}

func TestCredentialsOfClustersAreTakenOut(t *testing.T) {
	if s := hideKube(orderedKube(t), "dial: Bearer "+kubeSecret+"."); s != "dial: Bearer [redacted]." {
		t.Errorf("told is %s", s)
	}
	f := new(Foreman)
	f.begin()
	f.put(&question{ask: &controlpb.KubeAsk{Api: &controlpb.KubeAPI{Credential: kubeSecret}}})
	if s := f.redact("it said " + kubeSecret); s != "it said [redacted]" {
		t.Errorf("told is %s", s)
	}
}

func FuzzWhatTheChildSaysOfACluster(f *testing.F) {
	f.Add([]byte(`{"at":"2026-11-01T00:00:00Z","pods":[{"name":"a"}],"why":"x\ny"}`))
	f.Add([]byte(`{"changes":[{"object":"Service/x","action":"update","diff":"+a"}],"failure":"denied"}`))
	ordered := orderedKube(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		now := time.Now()
		if o, ok := kubeOutcomeOf(&controlpb.KubeOutcome{Cluster: "kube-a", Json: text}, ordered, now); ok {
			if o.At.After(now) || len(o.Why) > maxKubeWhy || !utf8.ValidString(o.Why) || len(o.Pods) > mesh.MaxKubePods || strings.ContainsAny(o.Detail, "\n\x1b") {
				t.Errorf("%+v", o)
			}
			clean(t, o)
		}
		if a, ok := kubeAnswerOf(text, &controlpb.KubeAsk{Api: ordered.GetClusters()[0].GetApi()}); ok {
			clean(t, a)
		}
	})
}

// A report of thousands of pods is never too long, and names each of them.
func TestAReportOfThousandsOfPodsFits(t *testing.T) {
	o := kube.Observation{At: time.Now().UTC(), Tally: mesh.KubeTally{All: 3000}}
	for i := range 3000 {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		if i >= mesh.MaxKubePods {
			o.More = append(o.More, uid)
			continue
		}
		o.Pods = append(o.Pods, mesh.KubePod{Name: strings.Repeat("p", 250), UID: uid, Node: strings.Repeat("n", 250), Reason: strings.Repeat("<", 300)})
	}
	for _, longer := range []int{1, 20} { // as a cluster may say
		for i := range o.Pods {
			o.Pods[i].Reason = strings.Repeat("<", 300*longer)
		}
		text, err := observationJSON(o)
		if err != nil || len(text) > maxKubeJSON {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		got, ok := kubeOutcomeOf(&controlpb.KubeOutcome{Cluster: "kube-a", Release: 2, Json: text}, orderedKube(t), time.Now())
		if !ok || len(got.Pods)+len(got.More) != 3000 || got.Tally.All != 3000 || len(got.Pods) == 0 {
			t.Errorf("%v: %d pods and %d more", ok, len(got.Pods), len(got.More))
		}
	}
}

func TestWhoeverAsksHearsBeforeHeGivesUp(t *testing.T) {
	if got := askFor(t.Context()); got != askTime {
		t.Errorf("without an end: %v", got)
	}
	for given, want := range map[time.Duration]time.Duration{time.Hour: askTime, 30 * time.Second: 28 * time.Second, 2 * time.Second: time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), given)
		if got := askFor(ctx); got > want || got < want-time.Second {
			t.Errorf("of %v: %v, want %v", given, got, want)
		}
		cancel()
	}
}
