package mesh

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSubscriptionSettingsSayWhatIsWrong(t *testing.T) {
	const day = Duration(24 * time.Hour)
	for _, tt := range []struct {
		name string
		set  func(*Config)
		says string // "": fine
	}{
		{"all that is usual", func(c *Config) {
			c.Subscription = SubscriptionSettings{
				Name: "sub.example.net", Certificate: SubscriptionACME, Title: "Сеть #1 & friends", Announce: "Maintenance at 2", UpdateInterval: day / 2,
				SupportURL: "tg://resolve?domain=help", PageURL: "https://example.net/", Agents: []AgentRule{{Match: "my app/", From: "1.2", Below: "2", Format: "clash"}},
			}
			c.Labels = LabelRotation{Every: 30 * day}
		}, ""},
		{"a mail address", func(c *Config) { c.Subscription.SupportURL = "mailto:help@example.net" }, ""},
		{"capitals in the name", func(c *Config) { c.Subscription.Name = "Sub.example.net" }, "subscription.name"},
		{"an address as the name", func(c *Config) { c.Subscription.Name = "192.0.2.1" }, "subscription.name"},
		{"an unknown certificate", func(c *Config) { c.Subscription.Certificate = "self" }, "files or acme"},
		{"a line break in the title", func(c *Config) { c.Subscription.Title = "a\nb" }, "subscription.title"},
		{"a title that turns around", func(c *Config) { c.Subscription.Title = "a\u202eb" }, "subscription.title"},
		{"a long title", func(c *Config) { c.Subscription.Title = strings.Repeat("ж", 61) }, "61 characters"},
		{"an announcement that is no text", func(c *Config) { c.Subscription.Announce = "\xff" }, "subscription.announce"},
		{"a script as a link", func(c *Config) { c.Subscription.SupportURL = "javascript:alert(1)" }, "subscription.supportUrl"},
		{"a link without a host", func(c *Config) { c.Subscription.PageURL = "https://" }, "subscription.pageUrl"},
		{"a link with a line break", func(c *Config) { c.Subscription.PageURL = "https://example.net/\r\nx: y" }, "subscription.pageUrl"},
		{"an interval of a second", func(c *Config) { c.Subscription.UpdateInterval = Duration(time.Second) }, "updateInterval"},
		{"a rule that matches all", func(c *Config) { c.Subscription.Agents = []AgentRule{{Format: "clash"}} }, "agents[0]: match"},
		{"a rule without a format", func(c *Config) { c.Subscription.Agents = []AgentRule{{Match: "x"}} }, "agents[0]: no format"},
		{"a version in words", func(c *Config) { c.Subscription.Agents = []AgentRule{{Match: "x", From: "new", Format: "clash"}} }, "such as 1.12"},
		{"too many rules", func(c *Config) { c.Subscription.Agents = make([]AgentRule, 65) }, "at most 64"},
		{"labels that change all the time", func(c *Config) { c.Labels.Every = 1 }, "labels.every"},
		{"an overlap below nothing", func(c *Config) { c.Labels.Overlap = -1 }, "labels.overlap"},
		{"an overlap longer than a life", func(c *Config) { c.Labels = LabelRotation{Every: day, Overlap: 2 * day} }, "pile up"},
		{"the usual overlap longer than a life", func(c *Config) { c.Labels = LabelRotation{Every: day} }, "pile up"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := DefaultConfig()
			tt.set(&c)
			err := c.Validate()
			if tt.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want ErrInvalid that says %q", err, tt.says)
			}
		})
	}
}

// What is accepted never breaks a header or a line.
func FuzzSubscriptionTexts(f *testing.F) {
	for _, s := range []string{"", "a", "a\nb", "Сеть", "https://example.net/?a=b#c", "tg:x", "\u202e", strings.Repeat("x", 3000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, set := range []SubscriptionSettings{{Title: s}, {Announce: s}, {SupportURL: s}, {PageURL: s}} {
			c := DefaultConfig()
			c.Subscription = set
			if c.Validate() == nil && (strings.ContainsAny(s, "\r\n\x00") || len(s) > 4*maxLink) {
				t.Errorf("%q is accepted", s)
			}
		}
	})
}
