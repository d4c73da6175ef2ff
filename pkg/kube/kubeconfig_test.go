package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

var ends = time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)

// newPair makes a certificate that signs itself, and its key, both PEM.
func newPair(t testing.TB) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: ends}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// jwt is a token that says when it ends.
func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// config is a kubeconfig with one context; cluster and user are in flow style.
func config(cluster, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: one
preferences: {}
contexts:
- name: one
  context: {cluster: c, user: u, namespace: edge}
- name: lost
  context: {cluster: c, user: nobody}
clusters:
- name: c
  cluster: {%s}
users:
- name: u
  user: {%s}
`, cluster, user)
}

func noFiles(name string) ([]byte, error) {
	return nil, fmt.Errorf("open %s: %w", name, os.ErrNotExist)
}

const server = "server: 'https://kube.example.net:6443'"

func TestKubeconfigs(t *testing.T) {
	cert, key := newPair(t)
	token := jwt(fmt.Sprintf(`{"exp":%d}`, ends.Unix()))
	pair := strings.TrimRight(cert, "\n") + "\n" + key
	files := map[string]string{"ca.pem": cert, "me.pem": cert, "me.key": key, "token": token + "\n"}
	for name, x := range map[string]struct {
		cluster, user string
		want          API
		ends          time.Time
	}{
		"a token in place": {
			server + ", certificate-authority-data: " + b64(cert) + ", tls-server-name: kube.internal", "token: " + token,
			API{CA: cert, ServerName: "kube.internal", Auth: mesh.KubeToken, Credential: mesh.Secret(token)}, ends,
		},
		"a token that says no end": {
			server, "token: abc.def", API{Auth: mesh.KubeToken, Credential: "abc.def"}, time.Time{},
		},
		"a certificate in place": {
			server, "client-certificate-data: " + b64(cert) + ", client-key-data: " + b64(key),
			API{Auth: mesh.KubeCertificate, Credential: mesh.Secret(pair)}, ends,
		},
		"files beside it": {
			server + ", certificate-authority: ca.pem", "client-certificate: me.pem, client-key: me.key",
			API{CA: cert, Auth: mesh.KubeCertificate, Credential: mesh.Secret(pair)}, ends,
		},
		"a file with a token, which goes before the token": {
			server, "token: old, tokenFile: token", API{Auth: mesh.KubeToken, Credential: mesh.Secret(token)}, ends,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseKubeconfig([]byte(config(x.cluster, x.user)), "", func(name string) ([]byte, error) { return []byte(files[name]), nil })
			if err != nil {
				t.Fatal(err)
			}
			x.want.Server, x.want.Namespace = "https://kube.example.net:6443", "edge"
			if got != x.want {
				t.Errorf("got %+v %q\nwant %+v %q", got, got.Credential.Reveal(), x.want, x.want.Credential.Reveal())
			}
			if at, err := got.Check(); err != nil || !at.Equal(x.ends) {
				t.Errorf("ends %v, %v; want %v", at, err, x.ends)
			}
		})
	}
}

func TestKubeconfigsThatNoServerCanUse(t *testing.T) {
	cert, key := newPair(t)
	_, otherKey := newPair(t)
	const secret = "s3cr3t"
	good := "token: " + secret
	for name, x := range map[string]struct{ text, want string }{
		"a program to log in":         {config(server, "exec: {command: aws}"), "runs no program"},
		"a plugin to log in":          {config(server, "auth-provider: {name: gcp}"), "no plugin"},
		"a password":                  {config(server, "username: a, password: "+secret), "given that up"},
		"to act as somebody else":     {config(server, good+", as: root"), "as itself alone"},
		"to act as a group":           {config(server, good+", as-groups: ['system:masters']"), "as itself alone"},
		"whoever answers":             {config(server+", insecure-skip-tls-verify: true", good), "on the way"},
		"through a proxy":             {config(server+", proxy-url: 'http://p:1'", good), "dial the cluster themselves"},
		"without TLS":                 {config("server: 'http://kube.example.net'", good), "https://"},
		"a server with a user":        {config("server: 'https://"+secret+"@kube.example.net'", good), "without a user"},
		"no server":                   {config("", good), "https://"},
		"nobody":                      {config(server, ""), "neither a token nor"},
		"a certificate without a key": {config(server, "client-certificate-data: "+b64(cert)), "neither a token nor"},
		"the key of another":          {config(server, "client-certificate-data: "+b64(cert)+", client-key-data: "+b64(otherKey)), "the key that it is for"},
		"a token and a certificate":   {config(server, good+", client-certificate-data: "+b64(cert)+", client-key-data: "+b64(key)), "one of them"},
		"a token of two lines":        {config(server, `token: "`+secret+`\nb"`), "one word"},
		"an authority that is none":   {config(server+", certificate-authority-data: "+b64("x"), good), "as PEM"},
		"an authority with a key":     {config(server+", certificate-authority-data: "+b64(key), good), "certificates alone"},
		"data that is no base64":      {config(server+", certificate-authority-data: '%'", good), "not base64"},
		"a file that is not there":    {config(server, "tokenFile: gone"), "file does not exist"},
		"a name that is none":         {config(server+", tls-server-name: 'a b'", good), "DNS name"},
		"another document":            {"apiVersion: v1\nkind: Secret\n", "kind Config"},
		"no YAML":                     {"token: [" + secret, "not readable"},
		"nothing":                     {"", "kind Config"},
		"too much":                    {config(server, good) + strings.Repeat("#", MaxKubeconfig), "larger"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseKubeconfig([]byte(x.text), "", noFiles)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Fatalf("%v; want … %s …", err, x.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the credential is shown: %v", err)
			}
			if !errors.Is(err, mesh.ErrInvalid) && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%v; want ErrInvalid", err)
			}
		})
	}
}

func TestContextsOfKubeconfigs(t *testing.T) {
	text := []byte(config(server, "token: abc"))
	if _, err := ParseKubeconfig(text, "one", noFiles); err != nil {
		t.Error(err)
	}
	if _, err := ParseKubeconfig(text, "two", noFiles); !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(mesh.Hint(err), "one, lost") {
		t.Errorf("%v, hint %q; want those that there are", err, mesh.Hint(err))
	}
	if _, err := ParseKubeconfig(text, "lost", noFiles); !errors.Is(err, mesh.ErrInvalid) || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v; want what is missing", err)
	}
	none := strings.Replace(string(text), "current-context: one", "", 1)
	if _, err := ParseKubeconfig([]byte(none), "", noFiles); !strings.Contains(mesh.Hint(err), "--context") {
		t.Errorf("%v, hint %q", err, mesh.Hint(err))
	}
}

func TestEndsOfTokens(t *testing.T) {
	for claims, want := range map[string]time.Time{
		`{"exp":1936681689}`:          time.Unix(1936681689, 0).UTC(),
		`{"exp":0}`:                   {},
		`{"exp":-5}`:                  {},
		`{"exp":9223372036854775807}`: {},
		`{"exp":"soon"}`:              {},
		`{}`:                          {},
		`[`:                           {},
	} {
		if got := tokenEnds(jwt(claims)); !got.Equal(want) {
			t.Errorf("%s: %v; want %v", claims, got, want)
		}
	}
}

// Whatever a file says, what comes out of it is checked, and nothing reads a file
// that it does not name.
func FuzzParseKubeconfig(f *testing.F) {
	cert, key := newPair(f)
	f.Add(config(server, "token: abc"), "")
	f.Add(config(server, "exec: {command: aws}"), "one")
	f.Add(config(server+", certificate-authority: ca.pem", "tokenFile: token"), "")
	f.Add(config(server, "client-certificate-data: "+b64(cert)+", client-key-data: "+b64(key)), "lost")
	f.Add("a: &a [*a]\n", "")
	f.Fuzz(func(t *testing.T, text, context string) {
		api, err := ParseKubeconfig([]byte(text), context, func(name string) ([]byte, error) {
			if !strings.Contains(text, name[:1]) {
				t.Errorf("reads %q, which the file does not name", name)
			}
			return []byte("word"), nil
		})
		if err != nil {
			return
		}
		if _, err := api.Check(); err != nil || !strings.HasPrefix(strings.ToLower(api.Server), "https://") || api.Credential == "" {
			t.Errorf("%+v: %v", api, err)
		}
	})
}
