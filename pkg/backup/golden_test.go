package backup_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
)

// known is an object of each folder, with everything that this version knows of.
func known() []backup.Object {
	const head = `{"schema":1,"minReader":1,`
	return []backup.Object{
		object("admins", "admin-aaaaaaaaaaaaaaaa", head+`"id":"admin-aaaaaaaaaaaaaaaa","name":"canary-admin-name","role":"owner","created":"2026-11-30T08:00:00Z"}`),
		object("backup", "settings", head+`"recipients":[{"name":"canary-recipient","key":"age1x","added":"2026-11-30T08:00:00Z"}],`+
			`"remotes":[{"name":"canary-remote","url":"https://canary-url/x.git","branch":"main","auth":"token","credential":"sealed:v1:canary-credential"}],`+
			`"every":"10s","verifyRecipient":"age1canary-own","verifyIdentity":"sealed:v1:canary-identity","signKey":"sealed:v1:canary-signkey","copies":{"dir":"/canary-dir","keep":7},"run":2}`),
		object("ca", "root", head+`"data":"Y2FuYXJ5LXNlYWxlZC1yb290","created":"2026-11-30T08:00:00Z"}`),
		object("cells", "cell-aaaaaaaaaaaaaaaa", head+`"id":"cell-aaaaaaaaaaaaaaaa","name":"canary-cell-name","suffix":"canary-suffix.example.net","state":"active",`+
			`"fallback":["cell-bbbbbbbbbbbbbbbb"],"certificate":"private","caCert":"canary-ca-cert","caKey":"sealed:v1:canary-ca-key","created":"2026-11-30T08:00:00Z"}`),
		object("certs", "1234567890", head+`"serial":"1234567890","node":"core/core-aaaaaaaaaaaaaaaa","keyHash":"AAAA","issuer":"mgmt-aaaaaaaaaaaaaaaa","issued":"2026-11-30T08:00:00Z","notBefore":"2026-11-30T07:50:00Z","notAfter":"2027-02-28T08:00:00Z"}`),
		object("config", "mesh", head+`"mgmtAddresses":["canary-mgmt-address:8443"],"entryAddresses":["canary-entry-address:443"],"allowedAddresses":["10.99.0.0/16"],`+
			`"certLife":{"node":"2160h0m0s","admin":"2160h0m0s","mgmt":"2160h0m0s"},"staleIfError":"24h0m0s","epoch":1}`),
		object("cores", "core-aaaaaaaaaaaaaaaa", head+`"id":"core-aaaaaaaaaaaaaaaa","name":"canary-core-name","member":"member-aaaaaaaaaaaaaaaa","cell":"cell-aaaaaaaaaaaaaaaa",`+
			`"state":"ready","reason":"canary-reason","everReady":true,"addresses":["canary-core-address:8444"],"egress":{"kind":"forward","forward":"canary-forward","allow":["10.98.0.0/16"]},"version":"1.2.3","joined":"2026-11-30T08:00:00Z"}`),
		object("devices", "device-aaaaaaaaaaaaaaaa", head+`"id":"device-aaaaaaaaaaaaaaaa","uuid":"canary-uuid","member":"member-aaaaaaaaaaaaaaaa","name":"canary-device-name","state":"active",`+
			`"labels":[{"label":"canary-label"}],"hiddenLabel":"canary-hidden","secret":"sealed:v1:canary-secret","verifiers":{"http":"canary-verifier"},`+
			`"limits":{"connections":8,"traffic":1000000},"assigned":{"cell":"cell-aaaaaaaaaaaaaaaa","core":"core-aaaaaaaaaaaaaaaa"},"created":"2026-11-30T08:00:00Z"}`),
		object("entries", "entry-aaaaaaaaaaaaaaaa", head+`"id":"entry-aaaaaaaaaaaaaaaa","name":"canary-entry-name","version":"1.2.3","joined":"2026-11-30T08:00:00Z"}`),
		object("members", "member-aaaaaaaaaaaaaaaa", head+`"id":"member-aaaaaaaaaaaaaaaa","name":"canary-member-name","state":"active","note":"canary-note","telegram":"canary-telegram","contacts":{"mail":"canary-mail"},"created":"2026-11-30T08:00:00Z"}`),
		object("revocations", "00066179cbe5400000000001", head+`"record":{"id":"00066179cbe5400000000001","node":"core/core-bbbbbbbbbbbbbbbb","reason":"canary-why","at":"2026-11-30T08:00:00Z","by":"admin:admin-aaaaaaaaaaaaaaaa","until":"2027-02-28T08:00:00Z"},`+
			`"payload":"canary-payload","signature":"canary-signature","signer":"canary-signer"}`),
		object("rollouts", "entries", head+`"group":"entries","running":{"revision":3,"suffixes":["canary-rollout-suffix"]},"reason":"canary-rollout-reason"}`),
		object("servers", "mgmt-aaaaaaaaaaaaaaaa", head+`"id":"mgmt-aaaaaaaaaaaaaaaa","name":"canary-server-name","addresses":["canary-server-address:8443"],"peer":"https://canary-peer:2380","gossip":"canary-gossip:7946","member":"8e9e05c52164694d","state":"member","joined":"2026-11-30T08:00:00Z"}`),
		object("tokens", "token-aaaaaaaaaaaaaaaa", head+`"id":"token-aaaaaaaaaaaaaaaa","hash":"canary-token-hash","role":"core","name":"canary-token-name","member":"member-aaaaaaaaaaaaaaaa","created":"2026-11-30T08:00:00Z","by":"admin:admin-aaaaaaaaaaaaaaaa","expires":"2026-12-01T08:00:00Z",`+
			`"used":{"node":"core/core-aaaaaaaaaaaaaaaa","keyHash":"canary-key-hash","from":"canary-from:1","at":"2026-11-30T09:00:00Z"}}`),
		object("bots", "telegram", head+`"token":"canary-bot-token","secret":"sealed:v1:canary-bot"}`),
	}
}

// TestGolden: what anybody may see, as it is. It shows in review what becomes
// public, and keeps the text of files from changing by accident: that would be a
// commit of everything for every mesh.
func TestGolden(t *testing.T) {
	for name, plaintext := range map[string]bool{"private": false, "plaintext": true} {
		t.Run(name, func(t *testing.T) {
			w, tree := newWorld(t), make(backup.Files)
			w.state.Objects, w.state.Plaintext = known(), plaintext
			w.did(w.now, "device.create", "device/device-aaaaaaaaaaaaaaaa")
			w.draft(tree)
			w.did(w.now.Add(time.Minute), "member.rename", "member/member-aaaaaaaaaaaaaaaa")
			w.draft(tree)
			var b strings.Builder
			for _, path := range paths(tree) {
				b.WriteString("-- " + path + " --\n")
				if strings.HasSuffix(path, ".yaml") {
					b.Write(tree[path])
				}
			}
			got := masked(b.String())
			golden := filepath.Join("testdata", "golden", name+".txt")
			if os.Getenv("UPDATE") == "1" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the visible part changed; look at the difference, then UPDATE=1 go test ./pkg/backup\ngot:\n%s", got)
			}
		})
	}
}

// masked leaves out what is random.
func masked(s string) string {
	for re, by := range map[string]string{
		`\b[0-9a-f]{64}\b`:          "SHA256",
		`\b[0-9a-f]{32}\b`:          "DIGEST",
		`mesh: mesh-[a-z2-7]{16}`:   "mesh: MESH",
		`server: mgmt-[a-z2-7]{16}`: "server: SERVER",
	} {
		s = regexp.MustCompile(re).ReplaceAllString(s, by)
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, `"SHA256"`, "SHA256"), `"DIGEST"`, "DIGEST")
}

// TestNothingSecretIsLegible plants a canary in every private and secret member,
// in keys and in audit records, and looks for it in every file of a history.
func TestNothingSecretIsLegible(t *testing.T) {
	w, tree := newWorld(t), make(backup.Files)
	w.state.Objects = known()
	w.state.Keys.SealedRoot = []byte("canary-sealed-root")
	w.state.Keys.Data = [][32]byte{[32]byte([]byte("canary-data-key-canary-data-key-"))}
	_, protected, err := backup.NewProtectedAt("correct horse battery", 1)
	if err != nil {
		t.Fatal(err)
	}
	w.state.Recipients[0].Protected = protected
	w.did(w.now, "device.create", "device/x") // with a name inside
	history := make(map[string][]byte)
	messages := ""
	look := func() {
		sum, files := w.draft(tree)
		messages += sum.Message()
		for _, f := range files {
			history[f.Path] = append(history[f.Path], f.Data...)
		}
	}
	look()
	w.state.Recipients = nil // and the same once nobody can read it
	look()
	history["message"] = []byte(messages)
	hidden := []string{"canary", "Alicia", "sealed:v1", w.alice.String(), w.own.String(), "10.99.0.0", "10.98.0.0", "Y2FuYXJ5", "Y2FuYXJ5LXNlYWxlZC1yb290", "63616e617279"}
	for path, data := range history {
		for _, s := range hidden {
			if strings.Contains(string(data), s) {
				t.Errorf("%s shows %q", path, s)
			}
		}
	}

	// With personal members shown, what is secret stays hidden.
	w.state.Recipients, w.state.Plaintext = []backup.Recipient{{Name: "alice", Key: w.alice.Recipient().String()}}, true
	clear(history)
	messages = ""
	look()
	shown := 0
	for path, data := range history {
		for _, s := range []string{
			"sealed:v1", "canary-secret", "canary-verifier", "canary-uuid", "canary-token-hash", "canary-bot-token", "canary-credential", "canary-identity",
			"canary-signkey", "canary-ca-key", "Y2FuYXJ5", "canary-telegram", "canary-mail", "canary-data-key",
		} {
			if strings.Contains(string(data), s) {
				t.Errorf("%s shows %q", path, s)
			}
		}
		shown += strings.Count(string(data), "canary-")
	}
	if shown < 20 {
		t.Errorf("only %d personal members are shown", shown)
	}
	sameState(t, w.state, w.read(tree))
}
