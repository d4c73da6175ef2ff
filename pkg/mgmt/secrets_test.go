package mgmt

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// TestNoSecretIsWrittenInTheClear plants secrets of every kind, does with them
// what a server does, and looks for them in its log, in events and audit, and in
// etcd's files.
func TestNoSecretIsWrittenInTheClear(t *testing.T) {
	w := getWorld(t)
	tok := w.token(t, mesh.RoleEntry)
	if _, err := join(t, tok, mesh.RoleEntry, newFolder(t)); err != nil {
		t.Fatal(err)
	}
	wrong := tok
	wrong.ID, wrong.Secret = mesh.NewTokenID(), mesh.NewSecret(32)
	if _, err := w.enroll(t, wrong, request(t, nothing(), newKey(t))); err == nil {
		t.Fatal("a wrong token was accepted")
	}
	member, cell := w.home(t)
	device := call(t, admin.DeviceAdd, w.local(t), admin.DeviceAddRequest{Member: member, Name: "phone", Cell: cell})
	link := call(t, admin.DeviceLinkOf, w.local(t), admin.Ref{Ref: string(device.ID)})
	cluster := mesh.NewSecret(32).Reveal()
	kube := call(t, admin.KubeAdd, w.local(t), admin.KubeAddRequest{Name: "of-secrets", Unchecked: true, KubeConnection: admin.KubeConnection{
		Server: "https://127.0.0.1:1", Auth: mesh.KubeToken, Credential: cluster,
	}})
	call(t, admin.KubeRemove, w.local(t), admin.KubeRemoveRequest{Ref: string(kube.ID)})
	key, err := ca.MarshalKey(w.keys.key)
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := w.keys.etcd.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	planted := map[string]string{
		"the passphrase":        passphrase,
		"a token":               tok.Encode().Reveal(),
		"a token's secret":      tok.Secret.Reveal(),
		"a wrong token's":       wrong.Secret.Reveal(),
		"a device's secret":     link.Secret,
		"a cluster's token":     cluster,
		"the intermediate key":  keyLine(key),
		"etcd's CA key":         keyLine(etcd),
		"the data key":          base64.RawURLEncoding.EncodeToString(w.keys.data[0][:]),
		"the data key, padded":  base64.StdEncoding.EncodeToString(w.keys.data[0][:]),
		"the data key, as such": string(w.keys.data[0][:]),
	}
	places := map[string][]byte{"the log": []byte(w.logs.String())}
	places["events"] = asJSON(t, call(t, admin.EventList, w.local(t), admin.EventListRequest{}))
	places["answers"] = asJSON(t, kube)
	places["audit"] = asJSON(t, call(t, admin.AuditList, w.local(t), admin.AuditListRequest{}))
	maps.Copy(places, filesBelow(t, filepath.Join(w.conf.Dir, dirEtcd)))
	if len(places) < 5 {
		t.Fatalf("only %d places to look at", len(places))
	}
	found := func(b []byte, s string) bool { return bytes.Contains(b, []byte(s)) }
	for place, b := range places {
		for what, s := range planted {
			if found(b, s) {
				t.Errorf("%s is in %s", what, place)
			}
		}
	}
	// The search would find them: the record of the token is in etcd's files.
	seen := false
	for _, b := range places {
		seen = seen || found(b, mesh.HashTokenSecret(tok.Secret))
	}
	if !seen {
		t.Error("not even the token's hash was found: the search looks in the wrong places")
	}
}

// keyLine is a line out of the middle of a PEM key.
func keyLine(pem mesh.Secret) string {
	lines := strings.Split(strings.TrimSpace(pem.Reveal()), "\n")
	return lines[len(lines)-3]
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// thereStill leaves out that a file is gone: a server that runs replaces some.
func thereStill(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func filesBelow(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out[path], err = os.ReadFile(path)
		}
		return thereStill(err)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheFolderIsPrivate looks at every file a server makes.
func TestTheFolderIsPrivate(t *testing.T) {
	w := getWorld(t)
	err := filepath.WalkDir(w.conf.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return thereStill(err)
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		return thereStill(err)
	})
	if err != nil {
		t.Fatal(err)
	}
}
