package bot

import (
	"encoding/base64"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/bot/telegram"
	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Conversations wait for the limits of Telegram, not for the machine.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func messageWith(label, data string) telegram.Message {
	return telegram.Message{Text: "x", Keyboard: [][]telegram.Button{{{Text: label, Data: data}}}}
}

func testSigner(t testing.TB) signer {
	t.Helper()
	s, err := newSigner("4711:token", "key", "mesh-aaaaaaaaaaaaaaaa")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestButtonsSayWhatWasWritten(t *testing.T) {
	s, now := testSigner(t), time.Now()
	for name, p := range map[string]press{
		"an action alone":      {action: "menu"},
		"two ids":              {action: "devmove", args: []string{string(mesh.NewDeviceID()), string(mesh.NewCellID())}, changes: true},
		"every kind of id":     {action: "x", args: []string{string(mesh.NewTelegramUserID()), "2"}},
		"an id of another":     {action: "x", args: []string{"device-ABC", "mesh-aaaaaaaaaaaa"}},
		"nothing and a number": {action: "page", args: []string{"", "17"}},
		"a name":               {action: "find", args: []string{"имя с пробелом"}},
	} {
		data, err := s.write(7, 7, p, now)
		if err != nil || len(data) > 64 || strings.Trim(data, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("%s: %q, %v", name, data, err)
			continue
		}
		got, err := s.read(7, 7, data, now.Add(9*time.Minute))
		if err != nil || got.action != p.action || !slices.Equal(got.args, p.args) || got.changes != p.changes {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for who, at := range map[[2]int64]error{{8, 7}: errForged, {7, 8}: errForged} {
			if _, err := s.read(who[0], who[1], data, now); !errors.Is(err, at) {
				t.Errorf("%s: as %v: %v", name, who, err)
			}
		}
		if _, err := s.read(7, 7, data, now.Add(11*time.Minute)); p.changes != errors.Is(err, errExpired) {
			t.Errorf("%s: later: %v", name, err)
		}
	}
	if _, err := s.write(7, 7, press{action: "x", args: []string{strings.Repeat("y", 200)}}, now); mesh.Kind(err) != mesh.ErrInvalid {
		t.Errorf("too long: %v", err)
	}
	a, _ := s.write(7, 7, press{action: "x", changes: true}, now)
	if b, _ := s.write(7, 7, press{action: "x", changes: true}, now); a == b {
		t.Error("two buttons that change something are the same")
	}
}

// TestEveryBitOfAButtonCounts: none can be changed, and none of another bot's is
// taken.
func TestEveryBitOfAButtonCounts(t *testing.T) {
	s, now := testSigner(t), time.Now()
	data, err := s.write(7, 7, press{action: "revoke", args: []string{string(mesh.NewCoreID())}, changes: true}, now)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(raw) * 8 {
		b := slices.Clone(raw)
		b[i/8] ^= 1 << (i % 8)
		if _, err := s.read(7, 7, base64.RawURLEncoding.EncodeToString(b), now); !errors.Is(err, errForged) {
			t.Errorf("bit %d: %v", i, err)
		}
	}
	for _, of := range [][3]string{
		{"4711:other", "key", "mesh-aaaaaaaaaaaaaaaa"}, {"4711:token", "", "mesh-aaaaaaaaaaaaaaaa"}, {"4711:token", "key", "mesh-bbbbbbbbbbbbbbbb"},
	} {
		other, err := newSigner(mesh.Secret(of[0]), mesh.Secret(of[1]), mesh.ID(of[2]))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.read(7, 7, data, now); !errors.Is(err, errForged) {
			t.Errorf("by %v: %v", of, err)
		}
	}
}

// FuzzPress: data that nobody signed is refused, and words are read back as they
// were written.
func FuzzPress(f *testing.F) {
	f.Add("AG1lbnU", "menu", "device-aaaaaaaaaaaaaaaa")
	f.Add("", "", "")
	f.Add(strings.Repeat("A", 64), "x", "tg-7777777777777777")
	f.Fuzz(func(t *testing.T, data, action, arg string) {
		s, now := testSigner(t), time.Unix(1_800_000_000, 0)
		if _, err := s.read(7, 7, data, now); !errors.Is(err, errForged) {
			t.Errorf("%q: %v", data, err)
		}
		p := press{action: action, args: []string{arg}, changes: len(arg)%2 == 0}
		data, err := s.write(7, 7, p, now)
		if err != nil {
			if len(action)+len(arg) < 20 {
				t.Errorf("%q, %q: %v", action, arg, err)
			}
			return
		}
		got, err := s.read(7, 7, data, now)
		if err != nil || got.action != action || got.args[0] != arg || got.changes != p.changes {
			t.Errorf("%q, %q: %+v, %v", action, arg, got, err)
		}
	})
}

// FuzzWords: what could be signed by mistake does no harm either.
func FuzzWords(f *testing.F) {
	f.Add([]byte{4, 'm', 'e', 'n', 'u'})
	f.Add(append([]byte{idTag}, make([]byte, 10)...))
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		words, ok := readWords(b)
		if !ok {
			return
		}
		var again []byte
		for _, w := range words {
			again = appendWord(again, w)
		}
		if back, ok := readWords(again); !ok || !slices.Equal(back, words) {
			t.Errorf("%q became %q", words, back)
		}
	})
}
