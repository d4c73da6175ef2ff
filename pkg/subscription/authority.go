package subscription

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"strings"
)

// pem is the authorities of private cells, for systems into which a person
// installs them by hand.
func (d document) pem() []byte {
	cas := authorities(d.nodes)
	if len(cas) == 0 {
		return []byte("# no cell of this device has an authority of its own\n")
	}
	return []byte(strings.Join(cas, "\n"))
}

// apple is the same as a configuration profile (Apple, Device Management: "Root
// certificate payload"). Ids follow from the certificates, so that a profile
// installed again replaces itself.
func (d document) apple() []byte {
	var payloads bytes.Buffer
	var all strings.Builder
	for i, ca := range authorities(d.nodes) {
		block, _ := pem.Decode([]byte(ca))
		if block == nil {
			continue
		}
		id := uuidOf("authority\x00" + string(block.Bytes))
		all.WriteString(id)
		fmt.Fprintf(&payloads, applePayload, base64.StdEncoding.EncodeToString(block.Bytes), fmt.Sprintf("%s (%d)", text(d.profile.title()), i+1), id, id)
	}
	id := uuidOf("profile\x00" + all.String())
	return fmt.Appendf(nil, appleProfile, payloads.String(), text(d.profile.title()), id, id)
}

// text escapes for XML; what XML cannot hold becomes U+FFFD.
func text(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}

// uuidOf is a UUID of version 8 (RFC 9562) from a hash.
func uuidOf(s string) string {
	u := sha256.Sum256([]byte("meshctl profile v1\x00" + s))
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%X-%X-%X-%X-%X", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

const applePayload = `<dict>
<key>PayloadType</key><string>com.apple.security.root</string>
<key>PayloadVersion</key><integer>1</integer>
<key>PayloadContent</key><data>%s</data>
<key>PayloadDisplayName</key><string>%s</string>
<key>PayloadIdentifier</key><string>meshctl.authority.%s</string>
<key>PayloadUUID</key><string>%s</string>
</dict>
`

const appleProfile = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
<key>PayloadType</key><string>Configuration</string>
<key>PayloadVersion</key><integer>1</integer>
<key>PayloadContent</key><array>
%s</array>
<key>PayloadDisplayName</key><string>%s</string>
<key>PayloadIdentifier</key><string>meshctl.profile.%s</string>
<key>PayloadUUID</key><string>%s</string>
</dict>
</plist>
`
