package subscription

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Content types.
const (
	typeText = "text/plain; charset=utf-8"
	typeYAML = "application/yaml; charset=utf-8"
	typeJSON = "application/json; charset=utf-8"
	typePAC  = "application/x-ns-proxy-autoconfig"
	typePEM  = "application/x-x509-ca-cert" // Android offers to install it

	typeApple = "application/x-apple-aspen-config"
)

// Render makes the document. It returns ErrInvalid for a format that is not
// made here, such as the page for people.
func Render(f Format, p Profile) (Body, error) {
	in, left := Select(f, p)
	d := document{profile: p, nodes: in, notice: notice(p, in, left)}
	kind, data, err := d.render(f)
	if err != nil {
		return Body{}, fmt.Errorf("subscription: render %s: %w", f, err)
	}
	return Body{ContentType: kind, Data: data, Left: left}, nil
}

// document is what one format is made of: nodes that it can carry, and what the
// client is to be told.
type document struct {
	profile Profile
	nodes   []Node
	notice  string
}

func (d document) render(f Format) (kind string, data []byte, err error) {
	switch f {
	case FormatBase64:
		return typeText, []byte(base64.StdEncoding.EncodeToString(d.links())), nil
	case FormatPlain:
		return typeText, d.links(), nil
	case FormatClash, FormatClashOld:
		data, err = d.clash()
		return typeYAML, data, err
	case FormatSingBox, FormatSingBoxLocal, FormatSingBoxOld, FormatSingBoxOldLocal, FormatSingBoxOutbounds:
		data, err = marshal(d.singBox(f))
		return typeJSON, data, err
	case FormatXray:
		data, err = marshal(d.xray())
		return typeJSON, data, err
	case FormatXrayList:
		data, err = marshal(d.xrayList())
		return typeJSON, data, err
	case FormatV2Ray:
		data, err = marshal(d.v2ray())
		return typeJSON, data, err
	case FormatPAC:
		return typePAC, d.pac(), nil
	case FormatCurl:
		return typeText, d.curl(), nil
	case FormatCA:
		return typePEM, d.pem(), nil
	case FormatApple:
		return typeApple, d.apple(), nil
	}
	return "", nil, mesh.ErrInvalid
}

// names of the nodes, and of the notice.
func (d document) names() []string {
	var out []string
	for _, n := range d.nodes {
		out = append(out, n.Name)
	}
	if d.notice != "" {
		out = append(out, d.notice)
	}
	return out
}

// marshal keeps < and & as they are: no browser reads these documents as HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}
