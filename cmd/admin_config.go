package cmd

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const maxPatch = 64 << 10

func settingsNoun() noun[mesh.Config] {
	return noun[mesh.Config]{
		one: "configuration", many: "configurations",
		id: func(mesh.Config) string { return "config" }, label: func(mesh.Config) string { return "of the mesh" },
		fields: func(c mesh.Config, _ time.Time) []field {
			orNone := func(s string) string {
				if s == "" {
					return "none"
				}
				return s
			}
			return []field{
				{"mgmtAddresses", orNone(listOf(c.MgmtAddresses))},
				{"entryAddresses", orNone(listOf(c.EntryAddresses))},
				{"allowedAddresses", orNone(listOf(c.AllowedAddresses))},
				{"certLife.node", shortDuration(time.Duration(c.CertLife.Node))},
				{"certLife.admin", shortDuration(time.Duration(c.CertLife.Admin))},
				{"certLife.mgmt", shortDuration(time.Duration(c.CertLife.Mgmt))},
				{"renewGrace", shortDuration(time.Duration(c.RenewGrace))},
				{"staleIfError", shortDuration(time.Duration(c.StaleIfError))},
				{"subscription.name", orNone(string(c.Subscription.Name))},
				{"subscription.certificate", string(c.Subscription.Certificate)},
				{"subscription.title", c.Subscription.Title},
				{"subscription.announce", c.Subscription.Announce},
				{"subscription.supportUrl", c.Subscription.SupportURL},
				{"subscription.pageUrl", c.Subscription.PageURL},
				{"subscription.updateInterval", longOrNone(c.Subscription.UpdateInterval)},
				{"subscription.agents", rulesIn(c.Subscription.Agents)},
				{"labels.every", longOrNone(c.Labels.Every)},
				{"labels.overlap", longOrNone(c.Labels.Overlap)},
				{"bot.noSecrets", whenSet(c.Bot.NoSecrets)},
				{"bot.noGuests", whenSet(c.Bot.NoGuests)},
				{"bot.deviceLimit", whenSet(c.Bot.DeviceLimit)},
				{"epoch", fmt.Sprint(c.Epoch)},
			}
		},
	}
}

// longOrNone is a setting that is left out when it is not set.
func longOrNone(d mesh.Duration) string {
	if d == 0 {
		return ""
	}
	return shortDuration(time.Duration(d))
}

// whenSet is a setting that is left out when it is not set.
func whenSet[T comparable](v T) string {
	var unset T
	if v == unset {
		return ""
	}
	return fmt.Sprint(v)
}

func rulesIn(rules []mesh.AgentRule) string {
	if len(rules) == 0 {
		return ""
	}
	return someOf(len(rules), "rule") + " (meshctl admin sub rule list)"
}

func newAdminSettings(a *adminCLI) *cobra.Command {
	return group("config", "Settings of the whole mesh", newSettingsShow(a), newSettingsSet(a))
}

func newSettingsShow(a *adminCLI) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the settings of the mesh", Args: takes(),
		RunE: a.run(func(ctx context.Context, s *adminSession, _ []string) error {
			v, err := ask(ctx, s, admin.ConfigGet, admin.None{})
			if err != nil {
				return err
			}
			return printOne(s.out(), s.format, settingsNoun(), v, s.now)
		}),
	}
}

func newSettingsSet(a *adminCLI) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "set [KEY=VALUE…]", Short: "Change settings of the mesh",
		Long: `Change settings of the mesh. A value is text, or JSON when it begins with one of
[ { " or is null, which leaves the setting empty. Lists may be written with commas.
--file takes a JSON merge patch (RFC 7396) as JSON or YAML.`,
		Example: `  meshctl admin config set entryAddresses=203.0.113.7:443,203.0.113.8:443
  meshctl admin config set certLife.node=720h staleIfError=48h
  meshctl admin config set subscription.name=sub.example.net subscription.title='Our network'
  meshctl admin config set bot.noSecrets=true bot.deviceLimit=3`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.FixedCompletions([]string{"mgmtAddresses=", "entryAddresses=", "allowedAddresses=", "certLife.node=", "certLife.admin=", "certLife.mgmt=", "renewGrace=", "staleIfError=",
			"subscription.name=", "subscription.certificate=", "subscription.title=", "subscription.announce=", "subscription.supportUrl=",
			"subscription.pageUrl=", "subscription.updateInterval=", "labels.every=", "labels.overlap=",
			"bot.noSecrets=", "bot.noGuests=", "bot.deviceLimit="},
			cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace),
		RunE: a.run(func(ctx context.Context, s *adminSession, args []string) error {
			patch, err := readPatch(ctx, s.cmd.InOrStdin(), file, args)
			if err != nil {
				return err
			}
			v, err := ask(ctx, s, admin.ConfigSet, admin.ConfigSetRequest{Patch: patch})
			if err != nil {
				return err
			}
			return changed(s, settingsNoun(), v, "changed")
		}),
	}
	c.Flags().StringVarP(&file, "file", "f", "", "file with a merge patch; - is standard input")
	return c
}

// readPatch makes one merge patch of a file or of KEY=VALUE words.
func readPatch(ctx context.Context, stdin io.Reader, file string, args []string) ([]byte, error) {
	switch {
	case file == "" && len(args) == 0:
		return nil, usagef("nothing to change").hint("give KEY=VALUE or --file")
	case file != "" && len(args) > 0:
		return nil, usagef("give KEY=VALUE or --file, not both")
	case file == "":
		return patchOf(args)
	}
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("--file: %w", err)
		}
		defer f.Close() // only read
		in = f
	}
	text, err := patient(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(in, maxPatch+1)) })
	if err != nil {
		return nil, fmt.Errorf("--file %s: %w", file, err)
	}
	if len(text) > maxPatch {
		return nil, usagef("--file %s: larger than %d bytes", file, maxPatch)
	}
	patch, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, usagef("--file %s: %s", file, strings.ReplaceAll(err.Error(), "\n ", ""))
	}
	return patch, nil
}

// patchOf turns certLife.node=720h into {"certLife":{"node":"720h"}}.
func patchOf(words []string) ([]byte, error) {
	patch := map[string]any{}
	for _, w := range words {
		key, text, ok := strings.Cut(w, "=")
		if !ok || key == "" {
			return nil, usagef("%q: want KEY=VALUE", w)
		}
		at, path := patch, strings.Split(key, ".")
		for _, k := range path[:len(path)-1] {
			next, ok := at[k].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[k] = next
			}
			at = next
		}
		v, err := patchValue(key, text)
		if err != nil {
			return nil, err
		}
		at[path[len(path)-1]] = v
	}
	return json.Marshal(patch)
}

func patchValue(key, text string) (any, error) {
	if text == "null" || text != "" && strings.ContainsAny(text[:1], `[{"`) {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return nil, usagef("%s: not valid JSON: %v", key, err)
		}
		return v, nil
	}
	switch kindOf(key) {
	case reflect.Bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return nil, usagef("%s: want true or false", key)
		}
		return v, nil
	case reflect.Int, reflect.Int64:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, usagef("%s: want a whole number", key)
		}
		return v, nil
	}
	if !strings.HasSuffix(key, "Addresses") {
		return text, nil
	}
	list := []string{}
	for w := range strings.SplitSeq(text, ",") {
		if w = strings.TrimSpace(w); w != "" {
			list = append(list, w)
		}
	}
	return list, nil
}

// kindOf is the kind of a setting's value in JSON; of one that writes itself as a
// text, and of one that there is not, it is a string: the server knows better.
func kindOf(key string) reflect.Kind {
	t := reflect.TypeFor[mesh.Config]()
	for name := range strings.SplitSeq(key, ".") {
		if t.Kind() != reflect.Struct {
			return reflect.String
		}
		f, ok := settingOf(t, name)
		if !ok {
			return reflect.String
		}
		t = f
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return reflect.String
	}
	return t.Kind()
}

func settingOf(t reflect.Type, name string) (reflect.Type, bool) {
	for f := range t.Fields() {
		if n, _, _ := strings.Cut(f.Tag.Get("json"), ","); n == name {
			return f.Type, true
		}
	}
	return nil, false
}
