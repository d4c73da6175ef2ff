package mesh

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSettingsOfAlerts(t *testing.T) {
	ok := AlertSettings{
		Rules: []AlertRuleSettings{{Rule: "core-lost", Severity: Info, For: new(Duration(time.Hour))}, {Rule: "cell-down", Disabled: true}},
		Mutes: []AlertMute{{Until: time.Now()}},
	}
	c := DefaultConfig()
	c.Alerts = ok
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]AlertSettings{
		"core-lost\" is there twice": {Rules: []AlertRuleSettings{{Rule: "core-lost"}, {Rule: "core-lost"}}},
		"severity \"bad\"":           {Rules: []AlertRuleSettings{{Rule: "core-lost", Severity: "bad"}}},
		"clear -1s":                  {Rules: []AlertRuleSettings{{Rule: "core-lost", Clear: new(Duration(-time.Second))}}},
		"repeat 1440h":               {Rules: []AlertRuleSettings{{Rule: "core-lost", Repeat: new(Duration(60 * 24 * time.Hour))}}},
		"mutes: 65":                  {Mutes: make([]AlertMute, MaxMutes+1)},
		"without an end":             {Mutes: []AlertMute{{}}},
	} {
		c.Alerts = bad
		if err := c.Validate(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhereWebhooksPost(t *testing.T) {
	for url, host := range map[Secret]string{
		"https://hooks.example.net/x?token=y": "hooks.example.net",
		"http://127.0.0.1:8080/":              "127.0.0.1:8080",
		"https://user:pw@example.net":         "example.net",
	} {
		if got, err := ParseHookURL(url); err != nil || got != host {
			t.Errorf("%s: %q, %v", url.Reveal(), got, err)
		}
	}
	for _, url := range []Secret{"", "hooks.example.net", "ftp://example.net/secret", "https:///secret", "https://example.net/#secret", "https://exa mple/secret", Secret("https://example.net/" + strings.Repeat("secret", 400))} {
		_, err := ParseHookURL(url)
		if !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url.Reveal(), err)
		}
	}
	for _, name := range []string{"", "-a", "a-", "A", "a.b", "a/b", strings.Repeat("a", 33)} {
		if CheckHookName(name) == nil {
			t.Errorf("name %q is taken", name)
		}
	}
	if err := errors.Join(CheckHookName("a"), CheckHookName("on-call-2"), CheckHookSecret(Secret(strings.Repeat("x", 16)))); err != nil {
		t.Error(err)
	}
	if CheckHookSecret("short") == nil || CheckHookSecret(Secret(strings.Repeat("x", 257))) == nil {
		t.Error("a secret of any length is taken")
	}
}
