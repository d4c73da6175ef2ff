package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// entryFile is the configuration of `meshctl entry run` in a pod. An image may be
// older than the server: a key that it may not know is left out unless it is set.
type entryFile struct {
	Dir           string         `json:"dir"`
	Listen        string         `json:"listen"`
	MetricsListen string         `json:"metrics-listen"`
	Kubernetes    entryIdentity  `json:"kubernetes"`
	Proxies       map[string]any `json:"proxies,omitempty"`
	Limits        map[string]int `json:"limits,omitempty"`
	Drain         entryDrain     `json:"drain"`
	Log           map[string]any `json:"log"`
}

type entryIdentity struct {
	Cluster   mesh.KubeID `json:"cluster"`
	TokenFile string      `json:"token-file"`
	Root      string      `json:"root"`
	MgmtFile  string      `json:"mgmt-file"`
}

type entryDrain struct {
	Wait  mesh.Duration `json:"wait"`
	Limit mesh.Duration `json:"limit"`
}

// configData is what the ConfigMap holds.
func configData(l mesh.EntryLayer, f Facts) map[string]string {
	mgmt := slices.Compact(slices.Sorted(slices.Values(f.Mgmt)))
	return map[string]string{configKey: entryConfig(l, f), mgmtKey: strings.Join(mgmt, "\n") + "\n"}
}

func entryConfig(l mesh.EntryLayer, f Facts) string {
	c := entryFile{
		Dir: stateDir + "/entry", Listen: port(clientsNumber), MetricsListen: port(healthNumber),
		Kubernetes: entryIdentity{
			Cluster: f.Cluster, Root: f.Root,
			TokenFile: tokenDir + "/" + tokenName, MgmtFile: configDir + "/" + mgmtKey,
		},
		Limits: make(map[string]int),
		Drain:  entryDrain{l.DrainWait, l.DrainLimit},
		Log:    map[string]any{"level": l.LogLevel, "format": "text"},
	}
	if len(l.Service.Proxies) > 0 {
		c.Proxies = map[string]any{"trusted": l.Service.Proxies, "required": true}
	}
	for key, n := range map[string]int{"connections": l.Limits.Connections, "per-source": l.Limits.PerSource, "hellos": l.Limits.Hellos} {
		if n != 0 {
			c.Limits[key] = n
		}
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		panic("kube: marshal the configuration of an entry: " + err.Error()) // its fields are texts and numbers
	}
	return string(text)
}

func configMap(data map[string]string, f Facts) Object {
	return object("v1", "ConfigMap", f).with("data", data)
}

// configHash is short enough for an annotation that people read.
func configHash(config string) string {
	sum := sha256.Sum256([]byte(config))
	return hex.EncodeToString(sum[:8])
}
