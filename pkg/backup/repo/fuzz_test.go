package repo

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// FuzzParseTree: whatever a folder's bytes are, names that come out are names.
func FuzzParseTree(f *testing.F) {
	h := strings.Repeat("h", 20)
	for _, s := range []string{
		"", "100644 a\x00" + h, "40000 d\x00" + h + "100644 e\x00" + h, "100644 ..\x00" + h, "x a\x00" + h,
		"100644 \x00" + h, "100644 a\x00" + h[:5], "100644 a/b\x00" + h, "777777777777777777777 a\x00" + h, " a\x00" + h,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseTree(data)
		if err != nil {
			if ReasonOf(err) != ReasonHostile {
				t.Errorf("%v is not hostile", err)
			}
			return
		}
		seen := make(map[string]bool)
		for _, e := range entries {
			if !safeName(e.name) || !safePath(e.name) || seen[e.name] {
				t.Errorf("name %q", e.name)
			}
			seen[e.name] = true
		}
	})
}

func packets(lines ...string) []byte {
	var b bytes.Buffer
	_ = pktline.NewEncoder(&b).EncodeString(lines...) // into memory
	return b.Bytes()
}

const someHash = "0123456789abcdef0123456789abcdef01234567"

// FuzzAnswers reads what a server may say: what it holds, a pack, and how a
// push went. It ends, and an error has a reason.
func FuzzAnswers(f *testing.F) {
	f.Add(packets(someHash+" refs/heads/main\x00side-band-64k object-format=sha1\n", pktline.FlushString))
	f.Add(packets("# service=git-upload-pack\n", pktline.FlushString, someHash+" HEAD\x00side-band-64k\n", "shallow "+someHash, pktline.FlushString))
	f.Add(packets(strings.Repeat("0", 40)+" capabilities^{}\x00report-status\n", pktline.FlushString))
	f.Add(packets(someHash+someHash[:24]+" refs/heads/main\x00object-format=sha256\n", pktline.FlushString))
	f.Add(packets("ERR access denied", pktline.FlushString))
	f.Add(packets("shallow "+someHash, pktline.FlushString, "NAK\n", "\x02counting\n", "\x01PACK", "\x01more", pktline.FlushString))
	f.Add(packets("ACK "+someHash+"\n", "\x03fatal\n"))
	f.Add(packets("unpack ok\n", "ng refs/heads/main protected branch hook declined\n", pktline.FlushString))
	f.Add(packets("unpack no space left\n", pktline.FlushString))
	f.Add([]byte("0003"))
	f.Add([]byte("fffe"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := readAdvertised(bytes.NewReader(data)); err != nil && ReasonOf(err) == "" {
			t.Errorf("%v has no reason", err)
		}
		d := &demux{s: pktline.NewScanner(bytes.NewReader(data))}
		if d.begin() == nil {
			if n, _ := io.Copy(io.Discard, d); n > int64(len(data)) {
				t.Errorf("%d bytes became %d", len(data), n)
			}
		}
		if err := pushed(bytes.NewReader(data), "refs/heads/main"); err == nil && !bytes.Contains(data, []byte("ok refs/heads/main")) {
			t.Error("a push went well that nobody confirmed")
		}
	})
}

// FuzzPath: a path that is taken has no part that leads elsewhere.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"a/b", "../a", "/a", "a//b", "a/.git/b", "a\x00b", `a\b`, "a/./b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !safePath(s) {
			return
		}
		for part := range strings.SplitSeq(s, "/") {
			if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") {
				t.Errorf("%q is taken", s)
			}
		}
	})
}
