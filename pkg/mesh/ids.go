package mesh

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// Ids are random and never reused. Each is a prefix that names the kind, a
// hyphen and 16 characters of lower-case base32 (80 bits).
type (
	ID       string // the mesh itself, SPIFFE trust domain
	MemberID string
	DeviceID string
	CellID   string
	CoreID   string
	EntryID  string
	ServerID string // a management server
	AdminID  string
	TokenID  string
	// TelegramUserID is ours for a Telegram user, whose own number is personal.
	TelegramUserID string
	KubeID         string // a Kubernetes cluster with entries
)

const (
	idLen     = 16
	idLetters = "abcdefghijklmnopqrstuvwxyz234567"
)

func newID(prefix string) string {
	return prefix + "-" + strings.ToLower(rand.Text()[:idLen])
}

func parseID(prefix, s string) (string, error) {
	rest, ok := strings.CutPrefix(s, prefix+"-")
	if !ok || len(rest) != idLen || strings.Trim(rest, idLetters) != "" {
		return "", fmt.Errorf("mesh: parse id %q: want %s- and %d of a-z2-7: %w", Quotable(s), prefix, idLen, ErrInvalid)
	}
	return s, nil
}

// Quotable bounds s so that hostile input does not flood an error text or log.
func Quotable(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// NewID returns a random mesh id.
func NewID() ID { return ID(newID("mesh")) }

// ParseID checks s. It returns ErrInvalid.
func ParseID(s string) (ID, error) { v, err := parseID("mesh", s); return ID(v), err }

// NewMemberID returns a random member id.
func NewMemberID() MemberID { return MemberID(newID("member")) }

// ParseMemberID checks s. It returns ErrInvalid.
func ParseMemberID(s string) (MemberID, error) {
	v, err := parseID("member", s)
	return MemberID(v), err
}

// NewDeviceID returns a random device id.
func NewDeviceID() DeviceID { return DeviceID(newID("device")) }

// ParseDeviceID checks s. It returns ErrInvalid.
func ParseDeviceID(s string) (DeviceID, error) {
	v, err := parseID("device", s)
	return DeviceID(v), err
}

// NewCellID returns a random cell id.
func NewCellID() CellID { return CellID(newID("cell")) }

// ParseCellID checks s. It returns ErrInvalid.
func ParseCellID(s string) (CellID, error) { v, err := parseID("cell", s); return CellID(v), err }

// NewCoreID returns a random core id.
func NewCoreID() CoreID { return CoreID(newID("core")) }

// ParseCoreID checks s. It returns ErrInvalid.
func ParseCoreID(s string) (CoreID, error) { v, err := parseID("core", s); return CoreID(v), err }

// NewEntryID returns a random entry id.
func NewEntryID() EntryID { return EntryID(newID("entry")) }

// ParseEntryID checks s. It returns ErrInvalid.
func ParseEntryID(s string) (EntryID, error) { v, err := parseID("entry", s); return EntryID(v), err }

// NewServerID returns a random management server id.
func NewServerID() ServerID { return ServerID(newID("mgmt")) }

// ParseServerID checks s. It returns ErrInvalid.
func ParseServerID(s string) (ServerID, error) { v, err := parseID("mgmt", s); return ServerID(v), err }

// NewAdminID returns a random administrator id.
func NewAdminID() AdminID { return AdminID(newID("admin")) }

// ParseAdminID checks s. It returns ErrInvalid.
func ParseAdminID(s string) (AdminID, error) { v, err := parseID("admin", s); return AdminID(v), err }

// NewTokenID returns a random join token id.
func NewTokenID() TokenID { return TokenID(newID("token")) }

// ParseTokenID checks s. It returns ErrInvalid.
func ParseTokenID(s string) (TokenID, error) { v, err := parseID("token", s); return TokenID(v), err }

// NewTelegramUserID returns a random id.
func NewTelegramUserID() TelegramUserID { return TelegramUserID(newID("tg")) }

// ParseTelegramUserID checks s. It returns ErrInvalid.
func ParseTelegramUserID(s string) (TelegramUserID, error) {
	v, err := parseID("tg", s)
	return TelegramUserID(v), err
}

// NewKubeID returns a random id of a Kubernetes cluster.
func NewKubeID() KubeID { return KubeID(newID("kube")) }

// ParseKubeID checks s. It returns ErrInvalid.
func ParseKubeID(s string) (KubeID, error) { v, err := parseID("kube", s); return KubeID(v), err }
