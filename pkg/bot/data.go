package bot

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// The data of a button, at most 64 characters of base64url:
//
//	flags(1) [until(4) nonce(3)] action args… mac(10)
//
// until and nonce are there when the action changes something: such a button works
// once, for ten minutes. action and each arg are a length and bytes, or for an id
// of an object a tag of its kind and 10 bytes. The mac is over user, chat and all
// before it, with a key of the bot's token and of one that the mesh has.
const (
	maxData   = 48 // bytes; 64 characters
	macSize   = 10
	changing  = 1 // flag
	headSize  = 7
	idTag     = 0x80
	pressTime = 10 * time.Minute
)

// Reasons why a button that was pressed leads nowhere.
var (
	errForged  = errors.New("bot: the button is none of this bot's for this user")
	errExpired = errors.New("bot: the button's time is over")
)

// press is what a button says.
type press struct {
	action  string
	args    []string
	changes bool
}

// signer writes and reads the data of buttons.
type signer struct{ key []byte }

func newSigner(token, own mesh.Secret, id mesh.ID) (signer, error) {
	key, err := hkdf.Key(sha256.New, []byte(token.Reveal()+" "+own.Reveal()), []byte(id), "meshctl bot buttons", sha256.Size)
	if err != nil {
		return signer{}, fmt.Errorf("bot: key of buttons: %w", err)
	}
	return signer{key}, nil
}

func (s signer) write(user, chat int64, p press, now time.Time) (string, error) {
	b := []byte{0}
	if p.changes {
		b[0] |= changing
		b = binary.BigEndian.AppendUint32(b, uint32(now.Add(pressTime).Unix()))
		b = append(b, 0, 0, 0)
		rand.Read(b[len(b)-3:]) // never fails (crypto/rand)
	}
	for _, word := range append([]string{p.action}, p.args...) {
		b = appendWord(b, word)
	}
	if len(b)+macSize > maxData {
		return "", fmt.Errorf("bot: button %s: %d bytes too long: %w", p.action, len(b)+macSize-maxData, mesh.ErrInvalid)
	}
	return base64.RawURLEncoding.EncodeToString(append(b, s.mac(user, chat, b)...)), nil
}

// read returns what a button says, or errForged or errExpired.
func (s signer) read(user, chat int64, data string, now time.Time) (press, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(data)
	if err != nil || len(b) > maxData || len(b) < 2+macSize {
		return press{}, errForged
	}
	b, mac := b[:len(b)-macSize], b[len(b)-macSize:]
	if !hmac.Equal(mac, s.mac(user, chat, b)) || b[0]&^changing != 0 {
		return press{}, errForged
	}
	p := press{changes: b[0]&changing != 0}
	b = b[1:]
	if p.changes {
		if len(b) < headSize {
			return press{}, errForged
		}
		if until := binary.BigEndian.Uint32(b); now.Unix() > int64(until) {
			return press{}, errExpired
		}
		b = b[headSize:]
	}
	words, ok := readWords(b)
	if !ok || len(words) == 0 {
		return press{}, errForged
	}
	p.action, p.args = words[0], words[1:]
	return p, nil
}

func (s signer) mac(user, chat int64, b []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	var who [16]byte
	binary.BigEndian.PutUint64(who[:8], uint64(user))
	binary.BigEndian.PutUint64(who[8:], uint64(chat))
	h.Write(who[:])
	h.Write(b)
	return h.Sum(nil)[:macSize]
}

// idKinds are the prefixes of ids, by their tag. New ones come last.
func idKinds() []string {
	return []string{"member", "device", "cell", "core", "entry", "mgmt", "admin", "token", "tg"}
}

var idBytes = base32.StdEncoding.WithPadding(base32.NoPadding)

func appendWord(b []byte, word string) []byte {
	kind, rest, _ := strings.Cut(word, "-")
	for i, k := range idKinds() {
		if k != kind {
			continue
		}
		raw, err := idBytes.DecodeString(strings.ToUpper(rest))
		if err == nil && len(raw) == 10 && idText(k, raw) == word {
			return append(append(b, idTag|byte(i)), raw...)
		}
	}
	if len(word) >= idTag {
		word = word[:idTag-1] // too long for any button in any case
	}
	return append(append(b, byte(len(word))), word...)
}

func idText(kind string, raw []byte) string {
	return kind + "-" + strings.ToLower(idBytes.EncodeToString(raw))
}

func readWords(b []byte) ([]string, bool) {
	var out []string
	for len(b) > 0 {
		tag, n := b[0], int(b[0])
		if tag >= idTag {
			n = 10
		}
		if len(b) < 1+n {
			return nil, false
		}
		word := string(b[1 : 1+n])
		if tag >= idTag {
			kinds := idKinds()
			i := int(tag &^ idTag)
			if i >= len(kinds) {
				return nil, false
			}
			word = idText(kinds[i], b[1:1+n])
		}
		out, b = append(out, word), b[1+n:]
	}
	return out, true
}
