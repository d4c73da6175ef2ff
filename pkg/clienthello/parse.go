package clienthello

const (
	extServerName = 0
	extALPN       = 16
	nameTypeHost  = 0

	maxSessionID = 32
	maxALPN      = 32 // names; bounds what a hello can make us allocate
)

// cursor reads length-prefixed fields. After the first field that does not fit it is bad for good.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) bytes(n int) []byte {
	if c.bad || n > len(c.b) {
		c.bad = true
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) uint8() int {
	if b := c.bytes(1); b != nil {
		return int(b[0])
	}
	return 0
}

func (c *cursor) uint16() int {
	if b := c.bytes(2); b != nil {
		return int(b[0])<<8 | int(b[1])
	}
	return 0
}

func (c *cursor) vector8() []byte  { return c.bytes(c.uint8()) }
func (c *cursor) vector16() []byte { return c.bytes(c.uint16()) }

// parse reads the body of a ClientHello (RFC 8446 section 4.1.2).
func parse(body []byte) (Hello, error) {
	c := &cursor{b: body}
	c.bytes(2 + 32) // version, random
	session := c.vector8()
	suites := c.vector16()
	compression := c.vector8()
	if c.bad || len(session) > maxSessionID || len(suites) < 2 || len(suites)%2 != 0 || len(compression) == 0 {
		return Hello{}, refuse(BadHello, "malformed fields")
	}
	if len(c.b) == 0 {
		return Hello{}, refuse(NoSNI, "no extensions")
	}
	extensions := &cursor{b: c.vector16()}
	if c.bad || len(c.b) != 0 {
		return Hello{}, refuse(BadHello, "malformed extensions")
	}
	return parseExtensions(extensions)
}

func parseExtensions(c *cursor) (Hello, error) {
	var h Hello
	var named, alpn bool
	for len(c.b) > 0 {
		typ, data := c.uint16(), c.vector16()
		if c.bad {
			return Hello{}, refuse(BadHello, "truncated extension")
		}
		var err error
		switch {
		case typ == extServerName && named, typ == extALPN && alpn:
			return Hello{}, refuse(BadHello, "extension %d twice", typ)
		case typ == extServerName:
			named = true
			h.ServerName, err = parseServerName(data)
		case typ == extALPN:
			alpn = true
			h.ALPN, err = parseALPN(data)
		}
		if err != nil {
			return Hello{}, err
		}
	}
	if !named {
		return Hello{}, refuse(NoSNI, "no server_name extension")
	}
	return h, nil
}

// parseServerName reads the server_name extension (RFC 6066 section 3). It holds exactly one
// entry, since two could be read differently by the two ends of the relay.
func parseServerName(data []byte) (string, error) {
	c := &cursor{b: data}
	list := &cursor{b: c.vector16()}
	typ, name := list.uint8(), list.vector16()
	switch {
	case c.bad || list.bad || len(c.b) != 0:
		return "", refuse(BadHello, "malformed server_name")
	case len(list.b) != 0:
		return "", refuse(BadHello, "more than one server name")
	case typ != nameTypeHost:
		return "", refuse(BadHello, "server name of type %d", typ)
	case len(name) == 0:
		return "", refuse(BadHello, "empty server name")
	}
	return string(name), nil
}

// parseALPN reads the application_layer_protocol_negotiation extension (RFC 7301 section 3.1).
func parseALPN(data []byte) ([]string, error) {
	c := &cursor{b: data}
	list := &cursor{b: c.vector16()}
	if c.bad || len(c.b) != 0 || len(list.b) == 0 {
		return nil, refuse(BadHello, "malformed ALPN")
	}
	var names []string
	for len(list.b) > 0 {
		name := list.vector8()
		if list.bad || len(name) == 0 || len(names) == maxALPN {
			return nil, refuse(BadHello, "malformed ALPN")
		}
		names = append(names, string(name))
	}
	return names, nil
}
