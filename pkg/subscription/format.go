package subscription

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Format is the kind of a document, as ?format= names it.
type Format string

// Formats. Those of sing-box are for a device, whose whole traffic they take,
// or local: a proxy on the loopback, as the command line wants it.
const (
	FormatBase64   Format = "base64" // the list of links, encoded as a whole
	FormatPlain    Format = "plain"  // the list of links
	FormatClash    Format = "clash"  // for mihomo
	FormatClashOld Format = "clash-old"

	FormatSingBox          Format = "sing-box" // 1.12 and later
	FormatSingBoxLocal     Format = "sing-box-local"
	FormatSingBoxOld       Format = "sing-box-old" // 1.10 and 1.11
	FormatSingBoxOldLocal  Format = "sing-box-old-local"
	FormatSingBoxOutbounds Format = "sing-box-outbounds" // any release, for apps that make the rest themselves

	FormatXray     Format = "xray"      // one configuration, a local proxy
	FormatXrayList Format = "xray-list" // one configuration for each node
	FormatV2Ray    Format = "v2ray"     // one configuration, a local proxy, for V2Ray 4

	FormatPAC  Format = "pac"
	FormatCurl Format = "curl"
	FormatHTML Format = "html" // the page for people; another package's

	// The authorities of private cells, to be installed by hand.
	FormatCA    Format = "ca"    // PEM
	FormatApple Format = "apple" // a configuration profile
)

// Formats are all there are.
func Formats() []Format {
	return []Format{
		FormatBase64, FormatPlain, FormatClash, FormatClashOld,
		FormatSingBox, FormatSingBoxLocal, FormatSingBoxOld, FormatSingBoxOldLocal, FormatSingBoxOutbounds,
		FormatXray, FormatXrayList, FormatV2Ray, FormatPAC, FormatCurl, FormatHTML, FormatCA, FormatApple,
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
