package mesh

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// MaxPodCertLife bounds the certificate of a pod, which outlives the pod.
const MaxPodCertLife = 24 * time.Hour

// PodEntryID is the id of the entry that is the pod with that UID: the same from
// whichever server, after a restore and under any data key.
func PodEntryID(cluster KubeID, uid string) EntryID {
	sum := sha256.Sum256([]byte("meshctl pod\x00" + string(cluster) + "\x00" + uid))
	return EntryID("entry-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:idLen*5/8])))
}

// IsZero says that it is no pod.
func (p EntryPod) IsZero() bool { return p == EntryPod{} }

// Is says whether both are the same pod, whatever its node is and whether it is
// gone.
func (p EntryPod) Is(o EntryPod) bool {
	return p.Cluster == o.Cluster && p.Namespace == o.Namespace && p.Name == o.Name && p.UID == o.UID
}

// RootText is how configurations spell the SHA-256 of a mesh's root.
func RootText(sum [32]byte) string { return hex.EncodeToString(sum[:]) }

// ParseRoot reads it. It returns ErrInvalid.
func ParseRoot(s string) ([32]byte, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != sha256.Size {
		return [32]byte{}, fmt.Errorf("mesh: root %q: want a SHA-256 in hexadecimal: %w", Quotable(s), ErrInvalid)
	}
	return [32]byte(b), nil
}
