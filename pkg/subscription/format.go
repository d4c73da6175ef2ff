package subscription

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Format is the kind of a document, as ?format= names it.
type Format string

// Formats.
const (
	FormatBase64  Format = "base64" // the list of links, encoded as a whole
	FormatPlain   Format = "plain"  // the list of links
	FormatClash   Format = "clash"
	FormatSingBox Format = "sing-box" // for a device: takes its whole traffic
	// FormatSingBoxOld is FormatSingBox in the schema of releases before 1.12.
	FormatSingBoxOld Format = "sing-box-old"
	// FormatSingBoxLocal is a local proxy only, as the command line wants it.
	FormatSingBoxLocal    Format = "sing-box-local"
	FormatSingBoxOldLocal Format = "sing-box-old-local"
	FormatXray            Format = "xray"      // one configuration
	FormatXrayList        Format = "xray-list" // one configuration for each node
	FormatV2Ray           Format = "v2ray"     // one configuration, for V2Ray 4
	FormatPAC             Format = "pac"
	FormatCurl            Format = "curl"
	FormatHTML            Format = "html" // the page for people; not of this package
)

// Formats are all there are.
func Formats() []Format {
	return []Format{
		FormatBase64, FormatPlain, FormatClash,
		FormatSingBox, FormatSingBoxLocal, FormatSingBoxOld, FormatSingBoxOldLocal,
		FormatXray, FormatXrayList, FormatV2Ray, FormatPAC, FormatCurl, FormatHTML,
	}
}

// ParseFormat reads the name of a format. It returns ErrInvalid.
func ParseFormat(s string) (Format, error) {
	if f := Format(s); slices.Contains(Formats(), f) {
		return f, nil
	}
	var all []string
	for _, f := range Formats() {
		all = append(all, string(f))
	}
	return "", fmt.Errorf("subscription: format %q: want one of %s: %w", mesh.Quotable(s), strings.Join(all, ", "), mesh.ErrInvalid)
}
