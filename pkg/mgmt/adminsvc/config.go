package adminsvc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/alert"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/subscription"
)

const (
	maxPatch     = 64 << 10
	maxAddresses = 16 // as many as a join token holds
)

func (s *Service) configGet(ctx context.Context, _ admin.None) (mesh.Config, error) {
	it, err := s.Store.Config.Get(ctx, store.ConfigKey)
	return it.Value, err
}

func (s *Service) configSet(ctx context.Context, req admin.ConfigSetRequest) (mesh.Config, error) {
	patch, err := readPatch(req.Patch)
	if err != nil {
		return mesh.Config{}, err
	}
	var out mesh.Config
	err = s.change(ctx, "config.set", func(tx *store.Tx) error {
		return store.Update(tx, s.Store.Config, store.ConfigKey, func(c *mesh.Config) error {
			next, err := patched(*c, patch)
			if err != nil {
				return err
			}
			if next.Epoch != c.Epoch || !next.EpochProof.Equal(c.EpochProof) || !next.Restored.Equal(c.Restored) {
				return fmt.Errorf("admin: config: the epoch rises when state is restored from a backup and is not set by hand: %w", mesh.ErrInvalid)
			}
			*c, out = next, next
			return nil
		})
	})
	return out, err
}

// readPatch decodes a merge patch and refuses members the configuration does
// not have.
func readPatch(text []byte) (map[string]any, error) {
	if len(text) > maxPatch {
		return nil, fmt.Errorf("admin: config: patch of %d bytes: want at most %d: %w", len(text), maxPatch, mesh.ErrInvalid)
	}
	var patch map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&patch); err != nil || patch == nil || dec.More() {
		return nil, fmt.Errorf("admin: config: the patch is not one JSON object: %w", mesh.ErrInvalid)
	}
	return patch, checkMembers("", patch, reflect.TypeFor[mesh.Config]())
}

func checkMembers(path string, patch map[string]any, t reflect.Type) error {
	known := members(t)
	for k, v := range patch {
		ft, ok := known[k]
		if !ok {
			return unknownSetting(path, k, slices.Sorted(maps.Keys(known)))
		}
		if sub, ok := v.(map[string]any); ok && ft.Kind() == reflect.Struct {
			if err := checkMembers(path+k+".", sub, ft); err != nil {
				return err
			}
		}
	}
	return nil
}

func unknownSetting(path, name string, known []string) error {
	err := fmt.Errorf("admin: config: unknown setting %q: %w", mesh.Quotable(path+name), mesh.ErrInvalid)
	if like := mesh.Nearest(name, known); len(like) > 0 {
		return mesh.WithHint(err, "did you mean "+path+like[0]+"?")
	}
	return mesh.WithHint(err, "the settings there are "+strings.Join(known, ", "))
}

// members are the JSON names of a struct's fields.
func members(t reflect.Type) map[string]reflect.Type {
	out := make(map[string]reflect.Type)
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[name] = f.Type
	}
	return out
}

// patched applies a merge patch (RFC 7396) and checks the outcome.
func patched(c mesh.Config, patch map[string]any) (mesh.Config, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return c, fmt.Errorf("admin: config: %w", err)
	}
	var doc map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return c, fmt.Errorf("admin: config: %w", err)
	}
	merge(doc, patch)
	if err := checkValues("", doc, reflect.TypeFor[mesh.Config]()); err != nil {
		return c, err
	}
	if text, err = json.Marshal(doc); err != nil {
		return c, fmt.Errorf("admin: config: %w", err)
	}
	var next mesh.Config
	if err := json.Unmarshal(text, &next); err != nil {
		return c, fmt.Errorf("admin: config: %v: %w", err, mesh.ErrInvalid)
	}
	return next, validate(next)
}

// checkValues names the setting whose value is of the wrong kind, as the JSON
// decoder would not in words for people.
func checkValues(path string, doc map[string]any, t reflect.Type) error {
	for name, ft := range members(t) {
		v, ok := doc[name]
		if !ok {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("admin: config: %w", err)
		}
		if ft.Kind() == reflect.Struct {
			sub, ok := v.(map[string]any)
			if !ok {
				return badValue(path+name, text, "settings below it, such as "+slices.Min(slices.Collect(maps.Keys(members(ft)))))
			}
			if err := checkValues(path+name+".", sub, ft); err != nil {
				return err
			}
		} else if json.Unmarshal(text, reflect.New(ft).Interface()) != nil {
			return badValue(path+name, text, wanted(ft))
		}
	}
	return nil
}

func badValue(name string, text []byte, want string) error {
	return fmt.Errorf("admin: config: %s %s: want %s: %w", name, mesh.Quotable(string(text)), want, mesh.ErrInvalid)
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	}
	switch t {
	case reflect.TypeFor[[]mesh.AgentRule]():
		return `a list of rules, such as [{"match": "MyApp", "format": "clash"}]`
	case reflect.TypeFor[mesh.Duration]():
		return "a number with a unit, such as 90s or 720h"
	case reflect.TypeFor[[]netip.Prefix]():
		return "ranges, such as 10.0.0.0/8"
	case reflect.TypeFor[[]string]():
		return "a list of texts"
	}
	return "a whole number"
}

// merge is MergePatch of RFC 7396, section 2.
func merge(target any, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = make(map[string]any)
	}
	for k, v := range p {
		if v == nil {
			delete(t, k)
			continue
		}
		t[k] = merge(t[k], v)
	}
	return t
}

// canBeDialled says whether a is host:port that every client takes as it stands:
// what goes into links and tokens is not read by Go alone.
func canBeDialled(a string) bool {
	host, port, err := net.SplitHostPort(a)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	if !strings.Contains(host, ".") {
		host += ".local" // one label is enough for a name
	}
	_, err = mesh.ParseServerName(host)
	return err == nil
}

// validate adds to the configuration's own rules that addresses can be dialled.
func validate(c mesh.Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	for _, r := range c.Subscription.Agents {
		if err := subscription.CheckRule(r); err != nil {
			return err
		}
	}
	if err := alert.Check(c.Alerts); err != nil {
		return err
	}
	if len(c.MgmtAddresses) == 0 {
		return fmt.Errorf("admin: config: mgmtAddresses is empty: no node could join or come back: %w", mesh.ErrInvalid)
	}
	for name, list := range map[string][]string{"mgmtAddresses": c.MgmtAddresses, "entryAddresses": c.EntryAddresses} {
		if len(list) > maxAddresses {
			return fmt.Errorf("admin: config: %s has %d addresses: want at most %d: %w", name, len(list), maxAddresses, mesh.ErrInvalid)
		}
		for _, a := range list {
			if !canBeDialled(a) {
				return fmt.Errorf("admin: config: %s: %q: want host:port, an IPv6 address in brackets, other alphabets than a-z as xn--…: %w", name, mesh.Quotable(a), mesh.ErrInvalid)
			}
		}
	}
	return nil
}
