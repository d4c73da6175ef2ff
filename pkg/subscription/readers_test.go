package subscription

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A reader finds the names of nodes in a document, as a client would.
type reader struct {
	format Format
	names  func(*testing.T, []byte) []string
}

func readers() []reader {
	return []reader{
		{FormatPlain, linkNames},
		{FormatBase64, func(t *testing.T, b []byte) []string {
			plain, err := base64.StdEncoding.DecodeString(string(b))
			if err != nil {
				t.Fatal(err)
			}
			return linkNames(t, plain)
		}},
		{FormatClash, clashNames}, {FormatClashOld, clashNames},
		{FormatSingBox, singBoxNames}, {FormatSingBoxLocal, singBoxNames}, {FormatSingBoxOld, singBoxNames},
		{FormatSingBoxOldLocal, singBoxNames}, {FormatSingBoxOutbounds, singBoxNames},
		{FormatXray, xrayNames}, {FormatV2Ray, xrayNames}, {FormatXrayList, xrayListNames},
	}
}

func linkNames(t *testing.T, b []byte) []string {
	var out []string
	for line := range strings.Lines(string(b)) {
		u, err := url.Parse(strings.TrimSuffix(line, "\n"))
		if err != nil || u.Port() == "" || u.User == nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, u.Fragment)
	}
	return out
}

// strict decodes what is known, and fails on what is not.
func strict(t *testing.T, b []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil || d.More() {
		t.Fatalf("%v\n%s", err, b)
	}
}

func singBoxNames(t *testing.T, b []byte) []string {
	var c singBoxConfig
	strict(t, b, &c)
	var out []string
	for _, o := range c.Outbounds {
		switch o.Type {
		case "vless", "trojan", "http":
			out = append(out, o.Tag)
		}
	}
	return out
}

func xrayNames(t *testing.T, b []byte) []string {
	var c xrayConfig
	strict(t, b, &c)
	var out []string
	for _, o := range c.Outbounds {
		out = append(out, o.Tag)
	}
	return out
}

func xrayListNames(t *testing.T, b []byte) []string {
	var all []xrayConfig
	strict(t, b, &all)
	var out []string
	for _, c := range all {
		if c.Remarks != groupAuto {
			out = append(out, c.Remarks)
		}
	}
	return out
}

func clashNames(t *testing.T, b []byte) []string {
	var out []string
	for _, p := range readClash(t, b).Proxies {
		out = append(out, p.Name)
	}
	return out
}

// clashDocument is what mihomo documents of a configuration
// (wiki.metacubex.one/en/config), as far as it may appear here. Text is text,
// numbers are numbers.
type clashDocument struct {
	MixedPort int    `yaml:"mixed-port"`
	AllowLAN  bool   `yaml:"allow-lan"`
	Mode      string `yaml:"mode"`
	LogLevel  string `yaml:"log-level"`
	IPv6      bool   `yaml:"ipv6"`
	TLS       struct {
		Certificates []string `yaml:"custom-certifactes"`
	} `yaml:"tls"`
	DNS struct {
		Enable      bool     `yaml:"enable"`
		IPv6        bool     `yaml:"ipv6"`
		Mode        string   `yaml:"enhanced-mode"`
		FakeRange   string   `yaml:"fake-ip-range"`
		NameServers []string `yaml:"nameserver"`
	} `yaml:"dns"`
	Proxies []struct {
		Name        string `yaml:"name"`
		Type        string `yaml:"type"`
		Server      string `yaml:"server"`
		Port        int    `yaml:"port"`
		UUID        string `yaml:"uuid"`
		Username    string `yaml:"username"`
		Password    string `yaml:"password"`
		UDP         bool   `yaml:"udp"`
		TLS         bool   `yaml:"tls"`
		ServerName  string `yaml:"servername"`
		SNI         string `yaml:"sni"`
		ClientHello string `yaml:"client-fingerprint"`
		Packets     string `yaml:"packet-encoding"`
		Network     string `yaml:"network"`
		WS          struct {
			Path    string            `yaml:"path"`
			Headers map[string]string `yaml:"headers"`
		} `yaml:"ws-opts"`
		GRPC struct {
			Service string `yaml:"grpc-service-name"`
		} `yaml:"grpc-opts"`
	} `yaml:"proxies"`
	Groups []struct {
		Name     string   `yaml:"name"`
		Type     string   `yaml:"type"`
		Proxies  []string `yaml:"proxies"`
		URL      string   `yaml:"url"`
		Interval int      `yaml:"interval"`
	} `yaml:"proxy-groups"`
	Rules []string `yaml:"rules"`
}

func readClash(t *testing.T, b []byte) clashDocument {
	t.Helper()
	var c clashDocument
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return c
}
