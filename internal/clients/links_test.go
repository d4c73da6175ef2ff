//go:build clients

package clients

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// fromLinks makes a configuration of Xray from a list of links, encoded as a
// whole, as v2rayNG and its relatives do
// (github.com/XTLS/Xray-core/discussions/716).
func fromLinks(t *testing.T, list []byte) []byte {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(string(list))
	if err != nil {
		t.Fatalf("no base64: %v\n%.300s", err, list)
	}
	var outbounds []any
	for line := range strings.Lines(string(text)) {
		outbounds = append(outbounds, outboundOf(t, strings.TrimSpace(line)))
	}
	config, err := json.Marshal(map[string]any{"outbounds": outbounds})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func outboundOf(t *testing.T, link string) map[string]any {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	server := map[string]any{"address": u.Hostname(), "port": port}
	settings := map[string]any{"servers": []any{server}}
	switch u.Scheme {
	case "vless":
		settings = map[string]any{"vnext": []any{server}}
		server["users"] = []any{map[string]any{"id": u.User.Username(), "encryption": q.Get("encryption")}}
	case "trojan":
		server["password"] = u.User.Username()
	default:
		t.Fatalf("a link to %s", u.Scheme)
	}
	stream := map[string]any{
		"network": q.Get("type"), "security": q.Get("security"),
		"tlsSettings": map[string]any{"serverName": q.Get("sni"), "fingerprint": q.Get("fp")},
	}
	switch q.Get("type") {
	case "ws":
		stream["wsSettings"] = map[string]any{"path": q.Get("path"), "host": q.Get("host")}
	case "grpc":
		stream["grpcSettings"] = map[string]any{"serviceName": q.Get("serviceName"), "multiMode": q.Get("mode") == "multi"}
	}
	return map[string]any{"tag": u.Fragment, "protocol": u.Scheme, "settings": settings, "streamSettings": stream}
}
