package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// A configuration is a struct whose leaves carry `key` and `help` tags. Each
// leaf is at once a flag (--etcd-quota), an environment variable
// (MESHCTL_ETCD_QUOTA) and a key of the file (etcd: {quota: …}); they win in
// that order, over the default, which is the value the struct came with.
// Leaves are string, bool, int, int64, time.Duration and []string.

const keyDelimiter = "::" // names of keys may hold dots, never this

// setting is one leaf.
type setting struct {
	path  []string
	help  string
	value reflect.Value
}

func (s setting) key() string  { return strings.Join(s.path, ".") }
func (s setting) flag() string { return strings.Join(s.path, "-") }
func (s setting) env() string {
	return "MESHCTL_" + strings.ToUpper(strings.ReplaceAll(s.flag(), "-", "_"))
}

// origin says where a value came from.
type origin struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"` // "flag --x", "env X", "file PATH:LINE", "default"
}

func settings(cfg any) []setting { return collect(reflect.ValueOf(cfg).Elem(), nil) }

func collect(v reflect.Value, path []string) []setting {
	var out []setting
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key, ok := f.Tag.Lookup("key")
		switch {
		case f.Anonymous:
			out = append(out, collect(v.Field(i), path)...)
		case !ok:
		case f.Type.Kind() == reflect.Struct:
			out = append(out, collect(v.Field(i), append(path[:len(path):len(path)], key))...)
		default:
			out = append(out, setting{append(path[:len(path):len(path)], key), f.Tag.Get("help"), v.Field(i)})
		}
	}
	return out
}

// configFlags adds --config and a flag for each leaf of cfg.
func configFlags(c *cobra.Command, role string, cfg any) {
	c.Flags().String("config", "", "configuration file (default "+defaultConfigFile(role)+" when it exists)")
	for _, s := range settings(cfg) {
		settingFlag(c.Flags(), s)
	}
}

func settingFlag(fs *pflag.FlagSet, s setting) {
	switch d := s.value.Interface().(type) {
	case string:
		fs.String(s.flag(), d, s.help)
	case bool:
		fs.Bool(s.flag(), d, s.help)
	case int:
		fs.Int(s.flag(), d, s.help)
	case int64:
		fs.Int64(s.flag(), d, s.help)
	case time.Duration:
		fs.Duration(s.flag(), d, s.help)
	case []string:
		fs.StringSlice(s.flag(), d, s.help)
	default:
		panic(fmt.Sprintf("cmd: configuration key %s: no flag for %T", s.key(), d))
	}
}

func defaultConfigFile(role string) string { return "/etc/meshctl/" + role + ".yaml" }

// loadConfig fills cfg, which holds the defaults, from flags, environment and
// file, and says where each value came from. An unknown key of the file is an
// error that names it, its line and the nearest known key.
func loadConfig(c *cobra.Command, role string, cfg any) ([]origin, error) {
	file, _ := c.Flags().GetString("config")
	return loadConfigFrom(c.Flags(), role, file, cfg)
}

func loadConfigFrom(flags *pflag.FlagSet, role, file string, cfg any) ([]origin, error) {
	all := settings(cfg)
	v := viper.NewWithOptions(viper.KeyDelimiter(keyDelimiter))
	v.AllowEmptyEnv(true)
	cf, err := readConfigFile(role, file, all)
	if err != nil {
		return nil, &configError{err}
	}
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(cf.data)); err != nil {
		return nil, &configError{fmt.Errorf("configuration: %s: %w", cf.name, err)}
	}
	origins := make([]origin, len(all))
	var errs []error
	for i, s := range all {
		o, err := resolve(v, flags, s, cf)
		if err != nil {
			errs = append(errs, err)
		}
		origins[i] = o
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &configError{err}
	}
	return origins, nil
}

// resolve sets one leaf from the source that wins.
func resolve(v *viper.Viper, flags *pflag.FlagSet, s setting, cf configFile) (origin, error) {
	key := strings.Join(s.path, keyDelimiter)
	v.SetDefault(key, s.value.Interface())
	if err := v.BindEnv(key, s.env()); err != nil {
		return origin{}, fmt.Errorf("configuration key %s: %w", s.key(), err)
	}
	from := "default"
	if line, ok := cf.lines[s.key()]; ok {
		from = fmt.Sprintf("file %s:%d", cf.name, line)
	}
	if _, ok := os.LookupEnv(s.env()); ok {
		from = "env " + s.env()
	}
	if flags != nil {
		if f := flags.Lookup(s.flag()); f != nil {
			if err := v.BindPFlag(key, f); err != nil {
				return origin{}, fmt.Errorf("configuration key %s: %w", s.key(), err)
			}
			if f.Changed {
				from = "flag --" + s.flag()
			}
		}
	}
	if err := assign(s.value, v.Get(key)); err != nil {
		return origin{}, fmt.Errorf("%s: configuration key %s: %w", from, s.key(), err)
	}
	shown := s.value.Interface()
	if list, ok := shown.([]string); ok && list == nil {
		shown = []string{} // not null for programs
	}
	if d, ok := shown.(time.Duration); ok {
		shown = shortDuration(d)
	}
	return origin{s.key(), shown, from}, nil
}

// assign converts what viper holds, a typed default, YAML or text, to the leaf.
func assign(dst reflect.Value, src any) error {
	if list, ok := dst.Interface().([]string); ok {
		words, err := stringList(src, list)
		if err == nil {
			dst.Set(reflect.ValueOf(words))
		}
		return err
	}
	if src == nil {
		return fmt.Errorf("it is empty: %w", mesh.ErrInvalid)
	}
	text := fmt.Sprint(src)
	bad := func(want string) error {
		return fmt.Errorf("%q: want %s: %w", mesh.Quotable(text), want, mesh.ErrInvalid)
	}
	switch dst.Interface().(type) {
	case string:
		switch src.(type) {
		case map[string]any, []any:
			return bad("one text")
		}
		dst.SetString(text)
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return bad("true or false")
		}
		dst.SetBool(b)
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return bad("a number with a unit, such as 90s or 24h")
		}
		dst.SetInt(int64(d))
	case int, int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return bad("a whole number")
		}
		dst.SetInt(n)
	}
	return nil
}

func stringList(src any, was []string) ([]string, error) {
	switch t := src.(type) {
	case nil:
		return was, nil
	case []string:
		return t, nil
	case string:
		var out []string
		for w := range strings.SplitSeq(t, ",") {
			if w = strings.TrimSpace(w); w != "" {
				out = append(out, w)
			}
		}
		return out, nil
	case []any:
		out := make([]string, len(t))
		for i, e := range t {
			switch e.(type) {
			case map[string]any, []any, nil:
				return nil, fmt.Errorf("element %d: want a text: %w", i+1, mesh.ErrInvalid)
			}
			out[i] = fmt.Sprint(e)
		}
		return out, nil
	}
	return nil, fmt.Errorf("want a list of texts: %w", mesh.ErrInvalid)
}
