package backup

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// keyed makes digests of plaintexts that say nothing to who lacks the data key:
// equal texts of two objects have two digests.
type keyed struct{ key []byte }

func newKeyed(dataKey [32]byte) (keyed, error) {
	key, err := hkdf.Key(sha256.New, dataKey[:], nil, "meshctl backup plaintext digest v1", sha256.Size)
	if err != nil {
		return keyed{}, fmt.Errorf("backup: derive the key of digests: %w", err)
	}
	return keyed{key}, nil
}

// of is the digest of what the file with that path (without extension) holds.
func (k keyed) of(path string, plain []byte) string {
	mac := hmac.New(sha256.New, k.key)
	io.WriteString(mac, path) // a hash takes everything
	mac.Write([]byte{0})
	mac.Write(plain)
	return hex.EncodeToString(mac.Sum(nil)[:plainLen/2])
}
