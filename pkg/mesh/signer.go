package mesh

import (
	"fmt"
	"strings"
)

// backupPart stands where a role stands in an identity. It is no role: what
// reads identities refuses it.
const backupPart = "backup"

// BackupURI names the key with which server s of mesh m signs backups:
// spiffe://<mesh>/backup/<server>.
func BackupURI(m ID, s ServerID) string {
	return "spiffe://" + string(m) + "/" + backupPart + "/" + string(s)
}

// ParseBackupURI reads what BackupURI wrote. It returns ErrInvalid.
func ParseBackupURI(uri string) (ID, ServerID, error) {
	bad := func() (ID, ServerID, error) {
		return "", "", fmt.Errorf("mesh: parse backup signer %q: want spiffe://<mesh>/%s/<server>: %w", Quotable(uri), backupPart, ErrInvalid)
	}
	rest, ok := strings.CutPrefix(uri, "spiffe://")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 || parts[1] != backupPart {
		return bad()
	}
	m, err := ParseID(parts[0])
	if err != nil {
		return bad()
	}
	s, err := ParseServerID(parts[2])
	if err != nil {
		return bad()
	}
	return m, s, nil
}
