package subscription

import (
	"errors"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// The User-Agents are those that the apps send.
func TestAppsGetTheFormatThatTheyRead(t *testing.T) {
	for agent, want := range map[string]Format{
		"":                FormatBase64,
		"v2rayNG/1.10.24": FormatBase64,
		"v2rayN/7.4.2":    FormatBase64,
		"Shadowrocket/2070 CFNetwork/1410.0.3 Darwin/22.6": FormatBase64,
		"Streisand/1.6.44":        FormatBase64,
		"Happ/3.4.1":              FormatBase64,
		"Go-http-client/1.1":      FormatBase64,
		"an app nobody knows/1.0": FormatBase64,

		"SFA/1.10.7 (412; sing-box 1.10.7; language en_US)":  FormatSingBoxOld,
		"SFI/1.11.4 (Build 1; sing-box 1.11.4; language ru)": FormatSingBoxOld,
		"SFA/1.12.0 (528; sing-box 1.12.0; language en_US)":  FormatSingBox,
		"SFM/1.13.5 (Build 1; sing-box 1.13.5; language en)": FormatSingBox,
		"SFT/1.14.1":            FormatSingBox,
		"SFA":                   FormatSingBox,
		"sing-box/1.11.15":      FormatSingBoxOldLocal,
		"sing-box 1.9":          FormatSingBoxOldLocal,
		"sing-box/1.12.0-rc.3":  FormatSingBoxLocal,
		"sing-box/2":            FormatSingBoxLocal,
		"sing-box":              FormatSingBoxLocal,
		"sing-box/unknown":      FormatSingBoxLocal,
		"sing-box/99999999999.": FormatSingBoxLocal,

		"HiddifyNext/2.5.7 (android) like ClashMeta v2ray sing-box": FormatSingBoxOutbounds,
		"karing/1.1.4.920": FormatSingBoxOutbounds,

		"clash-verge/v2.2.3":                              FormatClash,
		"ClashMetaForAndroid/2.11.19.Meta":                FormatClash,
		"ClashX Meta/v1.4.17":                             FormatClash,
		"clash.meta/v1.19.17":                             FormatClash,
		"mihomo.party/v1.7.3":                             FormatClash,
		"FlClashX/1.2.0":                                  FormatClash,
		"FlClash/v0.8.80 clash-verge Platform/android":    FormatClash,
		"Stash/2.7.5 Clash/1.11.0":                        FormatClash,
		"NekoBox/Android/1.3.6 (Prefer ClashMeta Format)": FormatClash,
		"ClashforWindows/0.20.39":                         FormatClashOld,
		"ClashForAndroid/2.5.12":                          FormatClashOld,
		"ClashX/1.118.0 (com.west2online.ClashX)":         FormatClashOld,
		"ClashX Pro/1.97.0.4":                             FormatClashOld,

		"Xray/26.3.27":                     FormatXray,
		"v2ray/4.34.0":                     FormatV2Ray,
		"V2Ray/5.16.1":                     FormatV2Ray,
		"curl/7.88.1":                      FormatCurl,
		strings.Repeat("x", 600) + "clash": FormatBase64,
	} {
		if got := (Rules{}).Choose(agent, "*/*", ""); got.Format != want || got.Rule == "" || got.Note != "" {
			t.Errorf("%q: got %+v, want %s", agent, got, want)
		}
	}
}

func TestWhatIsAskedForComesFirst(t *testing.T) {
	const browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/131.0.0.0 Safari/537.36"
	rules := Rules{Agents: []mesh.AgentRule{
		{Match: "MyApp", Below: "2", Format: "plain"},
		{Match: "myapp", Format: "xray-list"},
		{Match: "curl", Format: "of another release"},
	}}
	for _, c := range []struct {
		agent, accept, format string
		want                  Format
		rule                  string
	}{
		{"curl/8", "*/*", "pac", FormatPAC, "asked for by name"},
		{browser, "text/html,application/xhtml+xml,*/*;q=0.8", "", FormatHTML, "Accept: text/html"},
		{browser, "*/*", "", FormatBase64, "no rule for this client"},
		{browser, "application/x-ns-proxy-autoconfig, */*", "", FormatPAC, "Accept: " + typePAC},
		{"Clash/1", "text/html", "", FormatClash, "built-in: clash"},
		{"MYAPP/1.9.1", "", "", FormatPlain, "operator: MyApp below 2"},
		{"myapp/v2.0", "", "", FormatXrayList, "operator: myapp"},
		{"myapp", "", "", FormatXrayList, "operator: myapp"},
		{"curl/8", "", "", FormatCurl, "built-in: curl from 1"},
	} {
		if got := rules.Choose(c.agent, c.accept, c.format); got.Format != c.want || got.Rule != c.rule {
			t.Errorf("%q, %q, %q: got %+v, want %s by %q", c.agent, c.accept, c.format, got, c.want, c.rule)
		}
	}
	if got := rules.Choose("clash", "", "surge"); got.Format != FormatClash || !strings.Contains(got.Note, "surge") {
		t.Errorf("a format that is not there: got %+v", got)
	}
}

func TestRulesOfOperatorsAreChecked(t *testing.T) {
	good := []mesh.AgentRule{
		{Match: "App", Format: "clash"}, {Match: "App", From: "1.2", Below: "1.10.1", Format: "html"},
	}
	bad := []mesh.AgentRule{
		{}, {Match: "App"}, {Format: "clash"}, {Match: "App", Format: "surge"}, {Match: "a\nb", Format: "clash"},
		{Match: "App", From: "one", Format: "clash"}, {Match: "App", Below: "1.", Format: "clash"},
		{Match: "App", From: "1.10", Below: "1.9", Format: "clash"}, {Match: "App", From: "1", Below: "1", Format: "clash"},
	}
	for _, r := range good {
		if err := CheckRule(r); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, r := range bad {
		if err := CheckRule(r); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%+v: got %v", r, err)
		}
	}
	for _, r := range builtIn() {
		if err := CheckRule(r); err != nil {
			t.Errorf("built-in %+v: %v", r, err)
		}
	}
}

func FuzzChoose(f *testing.F) {
	f.Add("SFA/1.12.0 (528; sing-box 1.12.0)", "text/html;q=0.9", "clash", "sing-box", "1.12")
	f.Add("\xff/1.1", ",;,", "", "\xff", "")
	f.Fuzz(func(t *testing.T, agent, accept, format, match, below string) {
		rules := Rules{Agents: []mesh.AgentRule{{Match: match, Below: below, Format: "plain"}}}
		if c := rules.Choose(agent, accept, format); c.Rule == "" || c.Format == "" {
			t.Errorf("got %+v", c)
		}
	})
}
