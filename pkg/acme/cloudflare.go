package acme

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	cloudflareAPI = "https://api.cloudflare.com/client/v4"
	maxAPIAnswer  = 1 << 20 // bytes
)

// cloudflare speaks version 4 of Cloudflare's API. The token needs Zone:Read and
// DNS:Edit for the zone, and nothing else.
type cloudflare struct {
	base   string // "": cloudflareAPI
	token  mesh.Secret
	client *http.Client
}

type cloudflareRecord struct {
	ID      string `json:"id,omitzero"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Content string `json:"content"`
	TTL     int    `json:"ttl,omitzero"`
}

func (c *cloudflare) Add(ctx context.Context, zone, name, text string) error {
	id, err := c.zone(ctx, zone)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPost, "/zones/"+id+"/dns_records", cloudflareRecord{Type: "TXT", Name: name, Content: `"` + text + `"`, TTL: recordTTL}, nil)
}

func (c *cloudflare) Remove(ctx context.Context, zone, name, text string) error {
	id, err := c.zone(ctx, zone)
	if err != nil {
		return err
	}
	var have []cloudflareRecord
	if err := c.call(ctx, http.MethodGet, "/zones/"+id+"/dns_records?"+url.Values{"type": {"TXT"}, "name": {name}, "per_page": {"100"}}.Encode(), nil, &have); err != nil {
		return err
	}
	for _, r := range have {
		if r.Type == "TXT" && strings.EqualFold(r.Name, name) && strings.Trim(r.Content, `"`) == text {
			if err := c.call(ctx, http.MethodDelete, "/zones/"+id+"/dns_records/"+url.PathEscape(r.ID), nil, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cloudflare) zone(ctx context.Context, name string) (id string, err error) {
	var zones []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	if err := c.call(ctx, http.MethodGet, "/zones?"+url.Values{"name": {name}}.Encode(), nil, &zones); err != nil {
		return "", err
	}
	for _, z := range zones {
		if strings.EqualFold(z.Name, name) {
			return url.PathEscape(z.ID), nil
		}
	}
	return "", fmt.Errorf("acme: Cloudflare: the token sees no zone %s: %w", mesh.Quotable(name), mesh.ErrNotFound)
}

// call makes one request and decodes the result of the answer.
func (c *cloudflare) call(ctx context.Context, method, path string, body, result any) error {
	base := c.base
	if base == "" {
		base = cloudflareAPI
	}
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("acme: Cloudflare: %w", err)
		}
		payload = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, payload)
	if err != nil {
		return fmt.Errorf("acme: Cloudflare: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("acme: Cloudflare: %w: %w", err, mesh.ErrUnavailable)
	}
	defer resp.Body.Close()
	var answer struct {
		Success bool            `json:"success"`
		Errors  []apiError      `json:"errors"`
		Result  json.RawMessage `json:"result"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, maxAPIAnswer)).Decode(&answer)
	switch {
	case err == nil && len(answer.Errors) > 0:
		return fmt.Errorf("acme: Cloudflare: status %d: %s (%d): %w", resp.StatusCode, mesh.Quotable(answer.Errors[0].Message), answer.Errors[0].Code, mesh.ErrDenied)
	case err != nil || !answer.Success || resp.StatusCode != http.StatusOK:
		return fmt.Errorf("acme: Cloudflare: status %d and no usable answer: %w", resp.StatusCode, mesh.ErrUnavailable)
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		return fmt.Errorf("acme: Cloudflare: an answer of another form: %w", mesh.ErrInvalid)
	}
	return nil
}

type apiError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}
