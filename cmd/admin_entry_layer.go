package cmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const maxLayerFile = 64 << 10

// layerFlags say what entries there are to be, one flag for each field.
type layerFlags struct {
	file                            string
	layer                           mesh.EntryLayer
	kind, service, autoscale        string
	annotations, nodeSelector       []string
	tolerations, proxies, dns       []string
	drainWait, drainLimit, deadline time.Duration
}

func (f *layerFlags) flags(c *cobra.Command) {
	// Defaults are for people to see: a flag that is not given changes nothing.
	fs, l, def := c.Flags(), &f.layer, mesh.EntryLayer{}.WithDefaults()
	fs.StringVarP(&f.file, "file", "f", "", "YAML file with all of it, as \"admin kube show CLUSTER --layer\" prints it; -: standard input")
	fs.StringVar(&l.Image, "image", "", "image of the pods, best with its digest")
	fs.StringVar(&l.PullSecret, "pull-secret", "", "Secret of the namespace to pull it with")
	fs.StringVar(&f.kind, "kind", string(def.Kind), "what keeps the pods: deployment, or daemonset with one for each node")
	fs.IntVar(&l.Replicas, "replicas", def.Replicas, "how many pods there are to be")
	fs.StringVar(&f.autoscale, "autoscale", "", "let a HorizontalPodAutoscaler choose the number: MIN-MAX or MIN-MAX@CPU%, such as 2-10@70%; off")
	fs.StringVar(&f.service, "service", string(def.Service.Type), "how clients reach the pods: loadbalancer or nodeport")
	fs.StringVar(&l.Service.Class, "lb-class", "", "class of the load balancer; empty: the cluster's own")
	fs.StringArrayVar(&f.annotations, "annotation", nil, "KEY=VALUE for whoever makes the load balancer; may be repeated")
	fs.IntVar(&l.Service.Port, "port", def.Service.Port, "port that clients dial")
	fs.IntVar(&l.Service.NodePort, "node-port", 0, "port of the nodes, of those that the cluster has for that (30000-32767 mostly); 0: it chooses")
	fs.StringSliceVar(&f.proxies, "proxy", nil, "addresses or ranges of balancers that send a PROXY protocol header; may be repeated")
	fs.StringSliceVar(&f.dns, "dns", nil, "addresses or ranges where pods find DNS, beside kube-dns of kube-system: 169.254.20.10 of a cache on each node; may be repeated")
	fs.StringSliceVar(&l.Service.Public, "public", nil, "HOST or HOST:PORT that clients are told instead of what the cluster says; may be repeated")
	fs.StringVar(&l.Service.Name, "dns-name", "", "DNS name that leads to the entries; clients are told it while it does")
	fs.StringVar(&l.Resources.CPU, "cpu", def.Resources.CPU, "CPU that each pod requests, such as 250m")
	fs.StringVar(&l.Resources.Memory, "memory", def.Resources.Memory, "memory that each pod requests, such as 128Mi")
	fs.StringVar(&l.Resources.MemoryLimit, "memory-limit", def.Resources.MemoryLimit, "memory that each pod may use")
	fs.IntVar(&l.Limits.Connections, "max-connections", 0, "connections that an entry has at once; 0: its own default")
	fs.IntVar(&l.Limits.PerSource, "max-per-source", 0, "of these from one address; 0: its own default")
	fs.IntVar(&l.Limits.Hellos, "max-hellos", 0, "of these that have not said yet where to; 0: its own default")
	fs.DurationVar(&f.drainWait, "drain-wait", time.Duration(def.DrainWait), "how long a pod that ends goes on accepting, for balancers to notice")
	fs.DurationVar(&f.drainLimit, "drain-limit", time.Duration(def.DrainLimit), "how long its open connections may go on then")
	fs.DurationVar(&f.deadline, "deadline", time.Duration(def.Deadline), "how long a rolling update may make no progress before it has failed")
	fs.IntVar(&l.Unavailable, "unavailable", def.Unavailable, "how many pods may be evicted at once")
	fs.StringVar(&l.PriorityClass, "priority-class", def.PriorityClass, "priority class of the pods")
	fs.StringArrayVar(&f.nodeSelector, "node-selector", nil, "KEY=VALUE label of the nodes to run on; may be repeated")
	fs.StringArrayVar(&f.tolerations, "toleration", nil, "taint of nodes to run on nevertheless: KEY[=VALUE][:EFFECT]; may be repeated")
	fs.BoolVar(&l.OpenNetwork, "open-network", false, "leave the NetworkPolicy out: pods may reach and be reached by anything")
	fs.StringVar(&l.LogLevel, "log-level", def.LogLevel, "how much entries log: debug, info, warn or error")
	words := map[string][]string{
		"kind": {string(mesh.EntryDeployment), string(mesh.EntryDaemonSet)}, "service": {string(mesh.ServiceLoadBalancer), string(mesh.ServiceNodePort)},
		"autoscale": {"off"}, "log-level": {"debug", "info", "warn", "error"},
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Name != "file" {
			complete(c, f.Name, words[f.Name]...) // never with files
		}
	})
}

// onto is was with what the flags change; a file takes the place of all of it.
func (f *layerFlags) onto(ctx context.Context, s *adminSession, was mesh.EntryLayer) (mesh.EntryLayer, error) {
	if f.file != "" {
		var err error
		if was, err = readLayer(ctx, f.file, s.cmd.InOrStdin()); err != nil {
			return was, err
		}
	}
	to, l := &was, f.layer
	put(s, "image", &to.Image, l.Image)
	put(s, "pull-secret", &to.PullSecret, l.PullSecret)
	put(s, "kind", &to.Kind, mesh.EntryKind(f.kind))
	put(s, "replicas", &to.Replicas, l.Replicas)
	put(s, "service", &to.Service.Type, mesh.EntryServiceType(f.service))
	put(s, "lb-class", &to.Service.Class, l.Service.Class)
	put(s, "port", &to.Service.Port, l.Service.Port)
	put(s, "node-port", &to.Service.NodePort, l.Service.NodePort)
	put(s, "public", &to.Service.Public, l.Service.Public)
	put(s, "dns-name", &to.Service.Name, l.Service.Name)
	put(s, "cpu", &to.Resources.CPU, l.Resources.CPU)
	put(s, "memory", &to.Resources.Memory, l.Resources.Memory)
	put(s, "memory-limit", &to.Resources.MemoryLimit, l.Resources.MemoryLimit)
	put(s, "max-connections", &to.Limits.Connections, l.Limits.Connections)
	put(s, "max-per-source", &to.Limits.PerSource, l.Limits.PerSource)
	put(s, "max-hellos", &to.Limits.Hellos, l.Limits.Hellos)
	put(s, "drain-wait", &to.DrainWait, mesh.Duration(f.drainWait))
	put(s, "drain-limit", &to.DrainLimit, mesh.Duration(f.drainLimit))
	put(s, "deadline", &to.Deadline, mesh.Duration(f.deadline))
	put(s, "unavailable", &to.Unavailable, l.Unavailable)
	put(s, "priority-class", &to.PriorityClass, l.PriorityClass)
	put(s, "open-network", &to.OpenNetwork, l.OpenNetwork)
	put(s, "log-level", &to.LogLevel, l.LogLevel)
	return was, f.parsed(s, to)
}

// parsed puts in what has a form of its own.
func (f *layerFlags) parsed(s *adminSession, to *mesh.EntryLayer) error {
	changed := s.cmd.Flags().Changed
	var err error
	for flag, n := range map[string]int{"replicas": f.layer.Replicas, "unavailable": f.layer.Unavailable, "port": f.layer.Service.Port} {
		// Zero would be the default, which nobody means by it.
		if changed(flag) && n < 1 {
			return usagef("--%s %d: want 1 or more", flag, n)
		}
	}
	if changed("autoscale") {
		err = f.scaled(s, to)
	}
	if to.Kind == mesh.EntryDaemonSet && !changed("replicas") {
		to.Replicas = 0
	}
	if changed("annotation") && err == nil {
		to.Service.Annotations, err = parsePairs("--annotation", f.annotations)
	}
	if changed("node-selector") && err == nil {
		to.NodeSelector, err = parsePairs("--node-selector", f.nodeSelector)
	}
	if changed("toleration") && err == nil {
		to.Tolerations, err = parseTolerations(f.tolerations)
	}
	if changed("proxy") && err == nil {
		to.Service.Proxies, err = parseRanges("--proxy", f.proxies)
	}
	if changed("dns") && err == nil {
		to.DNS, err = parseRanges("--dns", f.dns)
	}
	return err
}

// scaled hands the number of pods to an autoscaler, or takes it back.
func (f *layerFlags) scaled(s *adminSession, to *mesh.EntryLayer) error {
	scale, err := parseAutoscale(f.autoscale)
	if err != nil {
		return err
	}
	replicas := s.cmd.Flags().Changed("replicas")
	switch was := to.Autoscale; {
	case scale != (mesh.EntryAutoscale{}) && !replicas:
		to.Replicas = 0
	case scale == (mesh.EntryAutoscale{}) && was != scale && !replicas && to.Kind != mesh.EntryDaemonSet:
		return usagef("--autoscale off: how many pods then?").hint("add --replicas N")
	}
	to.Autoscale = scale
	return nil
}

// put changes a field whose flag was given.
func put[T any](s *adminSession, flag string, field *T, v T) {
	if s.cmd.Flags().Changed(flag) {
		*field = v
	}
}

// readLayer reads all of a layer. A member that it does not know is a mistake.
func readLayer(ctx context.Context, file string, stdin io.Reader) (mesh.EntryLayer, error) {
	var l mesh.EntryLayer
	text, err := readBounded(ctx, file, stdin, maxLayerFile)
	if err != nil {
		return l, fmt.Errorf("--file: %w", err)
	}
	if err := yaml.UnmarshalStrict(text, &l); err != nil {
		return l, fmt.Errorf("--file: %s: %s: %w", file, plainYAML(err), mesh.ErrInvalid)
	}
	return l, nil
}

// plainYAML is what is wrong with a file, without the way on which that was found.
func plainYAML(err error) string {
	text := err.Error()
	for _, p := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: ", "json: "} {
		text = strings.TrimPrefix(text, p)
	}
	return clean(text)
}

// readBounded reads a file that is no secret, or standard input as "-".
func readBounded(ctx context.Context, file string, stdin io.Reader, limit int64) ([]byte, error) {
	r := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	text, err := readUpTo(ctx, r, limit)
	return bytes.TrimPrefix(text, []byte("\ufeff")), err
}

// readUpTo reads all of r. It returns ErrInvalid when that is more than limit.
func readUpTo(ctx context.Context, r io.Reader, limit int64) ([]byte, error) {
	text, err := patient(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(r, limit+1)) })
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("longer than %d bytes: %w", limit, mesh.ErrInvalid)
	}
	return text, err
}

// parseAutoscale reads "2-10@70%", or "off".
func parseAutoscale(text string) (mesh.EntryAutoscale, error) {
	var out mesh.EntryAutoscale
	if text == "off" || text == "" {
		return out, nil
	}
	span, cpu, withCPU := strings.Cut(text, "@")
	low, high, ok := strings.Cut(span, "-")
	var errs [3]error
	out.Min, errs[0] = strconv.Atoi(low)
	out.Max, errs[1] = strconv.Atoi(high)
	if withCPU {
		out.CPU, errs[2] = strconv.Atoi(strings.TrimSuffix(cpu, "%"))
	}
	// Zero of the CPU would be the default, which nobody means by it.
	if !ok || errs != [3]error{} || withCPU && out.CPU == 0 {
		return mesh.EntryAutoscale{}, usagef("--autoscale %q: want MIN-MAX, MIN-MAX@CPU%% or off", text)
	}
	return out, nil
}

// parsePairs reads KEY=VALUE; one empty word is none.
func parsePairs(flag string, words []string) (map[string]string, error) {
	out := map[string]string{}
	for _, w := range words {
		if w == "" && len(words) == 1 {
			return nil, nil
		}
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" {
			return nil, usagef("%s %q: want KEY=VALUE", flag, w)
		}
		if _, twice := out[k]; twice {
			return nil, usagef("%s: %s stands twice", flag, k)
		}
		out[k] = v
	}
	return out, nil
}

// parseTolerations reads KEY[=VALUE][:EFFECT]; one empty word is none.
func parseTolerations(words []string) ([]mesh.EntryToleration, error) {
	var out []mesh.EntryToleration
	for _, w := range words {
		if w == "" && len(words) == 1 {
			return nil, nil
		}
		taint, effect, _ := strings.Cut(w, ":")
		key, value, _ := strings.Cut(taint, "=")
		if key == "" {
			return nil, usagef("--toleration %q: want KEY[=VALUE][:EFFECT]", w)
		}
		out = append(out, mesh.EntryToleration{Key: key, Value: value, Effect: effect})
	}
	return out, nil
}

// parseRanges reads addresses and ranges of them; one empty word is none.
func parseRanges(flag string, words []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, w := range words {
		if w == "" && len(words) == 1 {
			return nil, nil
		}
		if a, err := netip.ParseAddr(w); err == nil && a.Zone() == "" {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(w)
		if err != nil {
			return nil, usagef("%s %q: want an address or a range, such as 10.0.0.0/8", flag, w)
		}
		out = append(out, p)
	}
	return out, nil
}
