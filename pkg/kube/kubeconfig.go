package kube

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// MaxKubeconfig bounds a kubeconfig, and each file that it names, in bytes.
const MaxKubeconfig = 1 << 20

// kubeconfig is what is read of one. What is not named here changes nothing about
// how a cluster is reached.
type kubeconfig struct {
	APIVersion     string `json:"apiVersion"`
	Kind           string `json:"kind"`
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string      `json:"name"`
		Context kubeContext `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string      `json:"name"`
		Cluster kubeCluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string   `json:"name"`
		User kubeUser `json:"user"`
	} `json:"users"`
}

type kubeContext struct {
	Cluster   string `json:"cluster"`
	User      string `json:"user"`
	Namespace string `json:"namespace"`
}

type kubeCluster struct {
	Server        string `json:"server"`
	TLSServerName string `json:"tls-server-name"`
	CAFile        string `json:"certificate-authority"`
	CAData        string `json:"certificate-authority-data"`
	Insecure      bool   `json:"insecure-skip-tls-verify"`
	ProxyURL      string `json:"proxy-url"`
}

type kubeUser struct {
	Token        string         `json:"token"`
	TokenFile    string         `json:"tokenFile"`
	CertFile     string         `json:"client-certificate"`
	CertData     string         `json:"client-certificate-data"`
	KeyFile      string         `json:"client-key"`
	KeyData      string         `json:"client-key-data"`
	Username     string         `json:"username"`
	Password     string         `json:"password"`
	Exec         map[string]any `json:"exec"`
	AuthProvider map[string]any `json:"auth-provider"`
	As           string         `json:"as"`
	AsUID        string         `json:"as-uid"`
	AsGroups     []string       `json:"as-groups"`
	AsExtra      map[string]any `json:"as-user-extra"`
}

// ParseKubeconfig reads how the cluster of a context is reached; "" is the current
// one. Files that it names come from read, given as they stand there. It returns
// ErrInvalid, also for ways to log in that only a person's machine has.
func ParseKubeconfig(data []byte, context string, read func(name string) ([]byte, error)) (API, error) {
	var k kubeconfig
	if len(data) > MaxKubeconfig {
		return API{}, configFault("larger than %d bytes", MaxKubeconfig)
	}
	if err := yaml.Unmarshal(data, &k); err != nil {
		return API{}, configFault("not readable as YAML") // the reason might show a credential
	}
	if k.Kind != "Config" || k.APIVersion != "v1" {
		return API{}, configFault("want kind Config of apiVersion v1")
	}
	cluster, user, namespace, err := k.choose(context)
	if err != nil {
		return API{}, err
	}
	if err := errors.Join(cluster.refuse(), user.refuse()); err != nil {
		return API{}, err
	}
	ca, err1 := inline("certificate-authority", cluster.CAData, cluster.CAFile, read)
	auth, credential, err2 := user.credential(read)
	if err := errors.Join(err1, err2); err != nil {
		return API{}, err
	}
	api := API{
		Server: cluster.Server, CA: ca, ServerName: cluster.TLSServerName,
		Auth: auth, Credential: mesh.Secret(credential), Namespace: namespace,
	}
	_, err = api.Check()
	return api, err
}

func configFault(format string, args ...any) error {
	return fmt.Errorf("kube: kubeconfig: "+format+": %w", append(args, mesh.ErrInvalid)...)
}

// choose finds what a context names. The first of a name counts, as it does for
// kubectl.
func (k kubeconfig) choose(context string) (c kubeCluster, u kubeUser, namespace string, err error) {
	if context == "" {
		context = k.CurrentContext
	}
	if context == "" {
		return c, u, "", mesh.WithHint(configFault("it has no current context"), "name one: --context NAME")
	}
	var names []string
	for _, x := range k.Contexts {
		names = append(names, x.Name)
	}
	i := slices.Index(names, context)
	if i < 0 {
		return c, u, "", mesh.WithHint(configFault("no context %q", mesh.Quotable(context)), fmt.Sprintf("there are: %.500s", strings.Join(names, ", ")))
	}
	chosen := k.Contexts[i].Context
	found := 0
	for _, x := range slices.Backward(k.Clusters) {
		if x.Name == chosen.Cluster {
			c, found = x.Cluster, found|1
		}
	}
	for _, x := range slices.Backward(k.Users) {
		if x.Name == chosen.User {
			u, found = x.User, found|2
		}
	}
	if found != 3 {
		return c, u, "", configFault("context %q: its cluster %q or user %q is not there", mesh.Quotable(context), mesh.Quotable(chosen.Cluster), mesh.Quotable(chosen.User))
	}
	return c, u, chosen.Namespace, nil
}

func (c kubeCluster) refuse() error {
	var errs []error
	if c.Insecure {
		errs = append(errs, configFault("insecure-skip-tls-verify: anybody on the way could be the cluster; want certificate-authority-data"))
	}
	if c.ProxyURL != "" {
		errs = append(errs, configFault("proxy-url: servers of management dial the cluster themselves; want a server that they reach, and no proxy"))
	}
	return errors.Join(errs...)
}

const ownAccount = "make an account for management: meshctl admin kube rbac, and a token of it"

func (u kubeUser) refuse() error {
	var errs []error
	no := func(there bool, what, why string) {
		if there {
			errs = append(errs, configFault("%s: %s", what, why))
		}
	}
	no(u.Exec != nil, "exec", "a server runs no program to log in")
	no(u.AuthProvider != nil, "auth-provider", "a server has no plugin to log in")
	no(u.Username != "" || u.Password != "", "username and password", "clusters have given that up")
	no(u.As != "" || u.AsUID != "" || len(u.AsGroups) > 0 || u.AsExtra != nil, "as", "management acts as itself alone")
	return mesh.WithHint(errors.Join(errs...), ownAccount)
}

func (u kubeUser) credential(read func(string) ([]byte, error)) (mesh.KubeAuth, string, error) {
	token, err := u.Token, error(nil)
	if u.TokenFile != "" {
		var data []byte
		if data, err = readAll("tokenFile", u.TokenFile, read); err == nil {
			token = strings.TrimSpace(string(data))
		}
	}
	cert, err1 := inline("client-certificate", u.CertData, u.CertFile, read)
	key, err2 := inline("client-key", u.KeyData, u.KeyFile, read)
	if err := errors.Join(err, err1, err2); err != nil {
		return "", "", err
	}
	switch {
	case token != "" && (cert != "" || key != ""):
		return "", "", configFault("the user has a token and a certificate; want one of them")
	case token != "":
		return mesh.KubeToken, token, nil
	case cert != "" && key != "":
		return mesh.KubeCertificate, strings.TrimRight(cert, "\n") + "\n" + key, nil
	}
	return "", "", mesh.WithHint(configFault("the user has neither a token nor a certificate with its key"), ownAccount)
}

// inline is the text of NAME-data, or of the file NAME. Data goes before, as it
// does for kubectl.
func inline(name, data, file string, read func(string) ([]byte, error)) (string, error) {
	if data != "" {
		text, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return "", configFault("%s-data: not base64", name)
		}
		return string(text), nil
	}
	if file == "" {
		return "", nil
	}
	text, err := readAll(name, file, read)
	return string(text), err
}

func readAll(name, file string, read func(string) ([]byte, error)) ([]byte, error) {
	data, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("kube: kubeconfig: %s: %w", name, err)
	}
	if len(data) > MaxKubeconfig {
		return nil, configFault("%s: %s: larger than %d bytes", name, mesh.Quotable(file), MaxKubeconfig)
	}
	return data, nil
}
