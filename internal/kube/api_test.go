//go:build kube

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// object is anything of the API, as JSON has it.
type object map[string]any

// at walks down fields and indices, and returns nil where there is nothing.
func (o object) at(path ...any) any {
	var v any = map[string]any(o)
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			list, _ := v.([]any)
			if s >= len(list) {
				return nil
			}
			v = list[s]
		}
	}
	return v
}

// text is at as a string; "" where there is none.
func (o object) text(path ...any) string {
	s, _ := o.at(path...).(string)
	return s
}

// number is at as a whole number; 0 where there is none.
func (o object) number(path ...any) int {
	n, _ := o.at(path...).(float64)
	return int(n)
}

// list is at as objects.
func (o object) list(path ...any) (out []object) {
	items, _ := o.at(path...).([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// words is at as texts.
func (o object) words(path ...any) (out []string) {
	items, _ := o.at(path...).([]any)
	for _, item := range items {
		out = append(out, fmt.Sprint(item))
	}
	return out
}

// condition is the status of a condition, and its message.
func (o object) condition(kind string) (status, message string) {
	for _, c := range o.list("status", "conditions") {
		if c.text("type") == kind {
			return c.text("status"), c.text("message")
		}
	}
	return "", ""
}

// api is the tests' own way to the API server.
type api struct {
	http  *http.Client
	url   string
	token string // bearer, of who has no certificate
}

// client is the API for the holder of a certificate.
func (c *controlPlane) client(name string) (*api, error) {
	config, err := c.pki.client(name)
	if err != nil {
		return nil, err
	}
	return &api{http: &http.Client{Transport: &http.Transport{TLSClientConfig: config, DialContext: c.Dial}}, url: c.url()}, nil
}

// as is the API for the holder of a token.
func (c *controlPlane) as(token string) (*api, error) {
	a, err := c.client("admin")
	if err != nil {
		return nil, err
	}
	a.http.Transport.(*http.Transport).TLSClientConfig.Certificates = nil
	a.token = token
	return a, nil
}

// tokenOf makes a token of a service account.
func (a *api) tokenOf(ctx context.Context, ns, account string) (string, error) {
	o, err := a.create(ctx, "/api/v1/namespaces/"+ns+"/serviceaccounts/"+account+"/token", object{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{"expirationSeconds": 24 * 3600}})
	return o.text("status", "token"), err
}

// statusError is a refusal of the API server.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("%d: %s", e.code, e.text) }

// Kinds of patches.
const (
	merge = "application/merge-patch+json"
)

// do sends a request with a body of the kind and returns the answer.
func (a *api) do(ctx context.Context, method, path, kind string, body any) (object, error) {
	data, err := a.raw(ctx, method, path, kind, body)
	if err != nil {
		return nil, err
	}
	var out object
	if json.Unmarshal(data, &out) != nil { // such as ok
		out = object{"text": string(data)}
	}
	return out, nil
}

// raw is do with the answer as it is.
func (a *api) raw(ctx context.Context, method, path, kind string, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if kind == "" {
		kind = "application/json"
	}
	req.Header.Set("Content-Type", kind)
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if warning := resp.Header.Get("Warning"); err == nil && warning != "" {
		return answer, fmt.Errorf("%s %s: the API server warns: %s", method, path, warning)
	}
	if err == nil && resp.StatusCode >= 300 {
		var status object
		if json.Unmarshal(answer, &status) == nil {
			answer = []byte(status.text("message"))
		}
		err = fmt.Errorf("%s %s: %w", method, path, &statusError{resp.StatusCode, strings.TrimSpace(string(answer))})
	}
	return answer, err
}

func (a *api) get(ctx context.Context, path string) (object, error) {
	return a.do(ctx, http.MethodGet, path, "", nil)
}

func (a *api) create(ctx context.Context, path string, o object) (object, error) {
	return a.do(ctx, http.MethodPost, path, "", o)
}

func (a *api) patch(ctx context.Context, path string, change object) error {
	_, err := a.do(ctx, http.MethodPatch, path, merge, change)
	return err
}

func (a *api) delete(ctx context.Context, path string) error {
	_, err := a.do(ctx, http.MethodDelete, path, "", nil)
	return err
}

// internalAddr is where a node is reached.
func internalAddr(node object) (netip.Addr, error) {
	for _, a := range node.list("status", "addresses") {
		if a.text("type") == "InternalIP" {
			return netip.ParseAddr(a.text("address"))
		}
	}
	return netip.Addr{}, fmt.Errorf("node %s has no address", node.text("metadata", "name"))
}
