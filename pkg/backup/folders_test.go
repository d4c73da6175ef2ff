package backup_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestEveryMemberHasAPlace: a new member of an object is secret until somebody
// says who may see it. This makes somebody say so, here or in folders.go.
func TestEveryMemberHasAPlace(t *testing.T) {
	secret := map[string]string{
		"acme":    "externalKey accountKey dns.credential",
		"backup":  "signKey verifyIdentity",
		"cells":   "caKey paths",
		"devices": "secret verifiers subscription.hash",
		"subcert": "pending key",
		"rollouts": "running.webSocketPaths running.grpcServices trial.webSocketPaths trial.grpcServices " +
			"parked.webSocketPaths parked.grpcServices",
		"kubes":  "credential",
		"tokens": "hash",
	}
	for folder, v := range map[string]any{
		"admins": mesh.Administrator{}, "backup": mesh.BackupSettings{}, "cells": mesh.Cell{}, "certs": mesh.CertRecord{}, "config": mesh.Config{},
		"cores": mesh.Core{}, "devices": mesh.Device{}, "entries": mesh.Entry{}, "members": mesh.Member{}, "revocations": mesh.SignedRevocation{},
		"rollouts": mesh.Rollout{}, "servers": mesh.Server{}, "tokens": mesh.Token{}, "totals": mesh.TrafficTotals{},
		"acme": mesh.ACMESettings{}, "cellcerts": mesh.CellCert{}, "subcert": mesh.SubscriptionCert{}, "kubes": mesh.KubeCluster{},
	} {
		named := append(strings.Fields(secret[folder]), backup.Named(folder)...)
		have := membersOf(reflect.TypeOf(v), "", named)
		for _, m := range have {
			if !covered(named, m) {
				t.Errorf("%s: who may see %s?", folder, m)
			}
		}
		for _, n := range named {
			if !slices.ContainsFunc(have, func(m string) bool { return m == n || strings.HasPrefix(m, n+".") }) {
				t.Errorf("%s: there is no %s", folder, n)
			}
		}
	}
}

func covered(named []string, member string) bool {
	return slices.ContainsFunc(named, func(n string) bool { return member == n || strings.HasPrefix(member, n+".") })
}

// membersOf lists the members of a type, and those of objects in it that are not
// named as a whole.
func membersOf(typ reflect.Type, prefix string, named []string) []string {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	var out []string
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		path := prefix + name
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if ft.Kind() == reflect.Struct && ft != reflect.TypeFor[time.Time]() && !slices.Contains(named, path) {
			out = append(out, membersOf(ft, path+".", named)...)
			continue
		}
		out = append(out, path)
	}
	return out
}

func TestKinds(t *testing.T) {
	for folder, kind := range map[string]string{"devices": "device", "entries": "entry", "later": "later"} {
		if got := backup.KindOf(folder); got != kind {
			t.Errorf("%s: got %s, want %s", folder, got, kind)
		}
	}
}
