package subscription

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestTheAuthoritiesOfPrivateCells(t *testing.T) {
	p := everything(t)
	p.Title = `<Title> & "quotes" ` + "\x07"
	want := authorities(p.Nodes)
	if len(want) == 0 {
		t.Fatal("no private cell among the nodes")
	}
	var blocks [][]byte
	for rest := render(t, FormatCA, p).Data; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		blocks = append(blocks, b.Bytes)
	}
	data, names := plist(t, render(t, FormatApple, p).Data)
	if len(blocks) != len(want) || len(data) != len(want) {
		t.Fatalf("%d in PEM, %d in the profile, want %d", len(blocks), len(data), len(want))
	}
	for i := range want {
		if !bytes.Equal(blocks[i], data[i]) {
			t.Errorf("authority %d differs", i)
		}
	}
	if !strings.Contains(names, `<Title> & "quotes"`) {
		t.Errorf("names %q", names)
	}
	suspended := p
	suspended.Standing = mesh.StandingSuspended
	if data, _ := plist(t, render(t, FormatApple, suspended).Data); len(data) != 0 || bytes.Contains(render(t, FormatCA, suspended).Data, []byte("BEGIN")) {
		t.Error("a device that is not served gets authorities")
	}
}

// plist reads the data of a property list, and all its strings.
func plist(t *testing.T, b []byte) (data [][]byte, names string) {
	t.Helper()
	var in string
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		tok, err := d.Token()
		if tok == nil {
			return data, names
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			in = e.Name.Local
		case xml.EndElement:
			in = ""
		case xml.CharData:
			switch in {
			case "data":
				der, err := base64.StdEncoding.DecodeString(string(e))
				if err != nil {
					t.Fatal(err)
				}
				data = append(data, der)
			case "string":
				names += string(e) + "\n"
			}
		}
	}
}
