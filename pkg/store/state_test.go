package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

// kindsOf is a value of every kind that is exported, by folder.
func kindsOf() map[string]any {
	return map[string]any{
		"members": mesh.Member{}, "devices": mesh.Device{}, "cells": mesh.Cell{}, "cores": mesh.Core{}, "entries": mesh.Entry{},
		"tokens": mesh.Token{}, "certs": mesh.CertRecord{}, "revocations": mesh.SignedRevocation{}, "admins": mesh.Administrator{},
		"servers": mesh.Server{}, "config": mesh.Config{}, "ca": store.Blob{}, "backup": mesh.BackupSettings{}, "rollouts": mesh.Rollout{},
		"totals": mesh.TrafficTotals{}, "acme": mesh.ACMESettings{}, "subcert": mesh.SubscriptionCert{}, "cellcerts": mesh.CellCert{},
		"audit": mesh.AuditRecord{},
	}
}

// random fills v with something.
func random(r *rand.Rand, v reflect.Value) {
	if _, ok := v.Interface().(mesh.Offer); !ok && r.IntN(5) == 0 {
		return
	}
	switch v.Interface().(type) {
	case mesh.Offer:
		all := mesh.Offers()
		v.Set(reflect.ValueOf(all[r.IntN(len(all))]))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(4e9), r.Int64N(1e9)).UTC()))
		return
	case netip.Prefix:
		v.Set(reflect.ValueOf(netip.MustParsePrefix("10.0.0.0/8")))
		return
	case netip.AddrPort:
		v.Set(reflect.ValueOf(netip.MustParseAddrPort("[2001:db8::1]:8444")))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{"a", "<ü> \"\\ \u2028", "12", "true", "null", "x\ny", mesh.SealedPrefix + "abc"}[r.IntN(7)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64())
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(256)))
	case reflect.Uint64:
		v.SetUint(r.Uint64())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			random(r, v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		random(r, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				random(r, v.Field(i))
			}
		}
	}
}

// unknown members of a later version, some at the top and some further in.
func unknown(r *rand.Rand, m map[string]any) {
	for k, v := range m {
		if in, ok := v.(map[string]any); ok && k != "changes" {
			unknown(r, in)
		}
	}
	if r.IntN(2) == 0 {
		m["later"] = map[string]any{"deep": []any{json.Number("12345678901234567890.50"), nil, "é"}}
		m["Z"] = "z"
	}
}

// randomState is objects of all kinds.
func randomState(t testing.TB, seed uint64, each int) []store.Raw {
	r := rand.New(rand.NewPCG(seed, 7))
	var out []store.Raw
	for folder, zero := range kindsOf() {
		for i := range each {
			v := reflect.New(reflect.TypeOf(zero)).Elem()
			for _, field := range v.Fields() {
				random(r, field)
			}
			id := fmt.Sprintf("id-%x-%d", seed, i)
			for _, name := range []string{"ID", "Serial", "Group"} {
				if f := v.FieldByName(name); f.IsValid() {
					f.SetString(id)
				}
			}
			if folder == "cellcerts" {
				v.FieldByName("Core").SetString(id)
			}
			if f := v.FieldByName("Record"); f.IsValid() {
				f.FieldByName("ID").SetString(id)
			}
			if f := v.FieldByName("Name"); f.IsValid() {
				f.SetString(fmt.Sprint("Name ü ", i))
			}
			if f := v.FieldByName("Suffix"); f.IsValid() {
				f.SetString(fmt.Sprintf("c%d.example.net", i))
			}
			out = append(out, store.Raw{Folder: folder, ID: id, Value: withUnknown(t, r, v.Interface())})
		}
	}
	return out
}

func withUnknown(t testing.TB, r *rand.Rand, v any) []byte {
	data, err := codec.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	m := plain(t, data)
	unknown(r, m)
	if r.IntN(2) == 0 {
		m["schema"], m["minReader"] = 9, r.IntN(2)
	}
	if data, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	return data
}

func plain(t testing.TB, data []byte) map[string]any {
	t.Helper()
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return m
}

// meaning is a state by key, without the audit, which is not exported.
func meaning(t testing.TB, objects []store.Raw) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, o := range objects {
		if o.Folder != "audit" {
			out[o.Folder+"/"+o.ID] = plain(t, o.Value)
		}
	}
	return out
}

func export(t testing.TB, s *store.Store) []store.Raw {
	t.Helper()
	out, rev, err := s.Export(t.Context(), 0)
	if err != nil || rev == 0 {
		t.Fatal(rev, err)
	}
	return out
}
