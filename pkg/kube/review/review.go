// Package review asks a Kubernetes cluster whose a service account token is. It
// speaks plain HTTP, one request for each question, so that what every management
// server does with tokens of strangers is short enough to be read.
package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/kube"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	path = "/apis/authentication.k8s.io/v1/tokenreviews"
	// limit is how long a question may take, and maxAnswer how long an answer may be.
	limit     = 5 * time.Second
	maxAnswer = 64 << 10
	// MaxToken is the length of the longest token that is asked about.
	MaxToken = 16 << 10
)

// Pod is whose a token is.
type Pod struct {
	Namespace string
	Account   string // the service account
	Name      string
	UID       string
	Node      string // "" of clusters that do not say it
}

// Token returns which pod has the token, which must be for that audience alone and
// bound to a pod that exists. It returns ErrDenied when the cluster says otherwise,
// and ErrUnavailable when it does not say: it is away, slow, or does not let us ask.
// No error has anything of token or credential in it.
func Token(ctx context.Context, api kube.API, audience string, token mesh.Secret) (Pod, error) {
	if err := plausible(token, audience); err != nil {
		return Pod{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	body, err := ask(ctx, api, audience, token)
	if err != nil {
		return Pod{}, fmt.Errorf("review: ask the cluster: %w", err)
	}
	return parse(body, audience)
}

func ask(ctx context.Context, api kube.API, audience string, token mesh.Secret) ([]byte, error) {
	c, err := client(api)
	if err != nil {
		return nil, err
	}
	defer c.CloseIdleConnections()
	question, err := json.Marshal(tokenReview{
		APIVersion: apiVersion, Kind: kind, Spec: spec{Token: token.Reveal(), Audiences: []string{audience}},
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(api.Server, "/")+path, bytes.NewReader(question))
	if err != nil {
		return nil, fmt.Errorf("%w: its address is no URL", mesh.ErrUnavailable)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if api.Auth == mesh.KubeToken {
		req.Header.Set("Authorization", "Bearer "+api.Credential.Reveal())
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", mesh.ErrUnavailable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		return nil, refusal(resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("%w: read its answer: %w", mesh.ErrUnavailable, err)
	}
	if len(b) > maxAnswer {
		return nil, fmt.Errorf("%w: its answer is longer than %d bytes", mesh.ErrUnavailable, maxAnswer)
	}
	return b, nil
}

// refusal is what it means that there is no answer: something about us, or about
// the cluster, and nothing about the token.
func refusal(status int) error {
	why := errors.New("it answers with status " + http.StatusText(status))
	switch status {
	case http.StatusUnauthorized:
		why = errors.New("it does not accept this mesh's credential")
	case http.StatusForbidden:
		why = errors.New("it does not let us ask: the account needs `create tokenreviews`")
	}
	return fmt.Errorf("%w: status %d: %w", mesh.ErrUnavailable, status, why)
}
