package mesh

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Config is the mesh-wide configuration: one object, changed by owners.
type Config struct {
	// AllowedAddresses are ranges beyond the public Internet in which cores may
	// be reached.
	AllowedAddresses []netip.Prefix `json:"allowedAddresses,omitzero"`
	// MgmtAddresses are host:port of the mesh ports, as tokens and nodes learn them.
	MgmtAddresses []string `json:"mgmtAddresses"`
	// EntryAddresses are host:port that clients dial: the balancer or the entries.
	EntryAddresses []string  `json:"entryAddresses,omitzero"`
	CertLife       CertLives `json:"certLife"`
	// RenewGrace lets an expired certificate renew for that long; 0: never.
	RenewGrace Duration `json:"renewGrace,omitzero"`
	// StaleIfError is how long an entry may use its last answer for a name
	// when no management server answers.
	StaleIfError Duration             `json:"staleIfError"`
	Subscription SubscriptionSettings `json:"subscription,omitzero"`
	Labels       LabelRotation        `json:"labels,omitzero"`
	Bot          BotSettings          `json:"bot,omitzero"`
	Alerts       AlertSettings        `json:"alerts,omitzero"`
	// Epoch rises when state is restored from a backup; nodes refuse a lower one.
	Epoch int64 `json:"epoch"`
	// EpochProof is the root's word for Epoch, without which nobody follows a
	// rise. A mesh founded before there was any has none in epoch 1.
	EpochProof SignedEpoch `json:"epochProof,omitzero"`
	// Restored is set by a restore.
	Restored Restored `json:"restored,omitzero"`
}

// CertLives is how long certificates live, by role.
type CertLives struct {
	Node  Duration `json:"node"`
	Admin Duration `json:"admin"`
	Mgmt  Duration `json:"mgmt"`
}

// minCertLife is for tests, in which hours are to pass in minutes. In service a
// life under some minutes makes every hiccup of the network an expiry.
const minCertLife = 5 * time.Second

// Of returns the life of a role's certificates.
func (l CertLives) Of(r Role) time.Duration {
	switch r {
	case RoleAdmin:
		return time.Duration(l.Admin)
	case RoleMgmt:
		return time.Duration(l.Mgmt)
	case RoleCore, RoleEntry:
		return time.Duration(l.Node)
	}
	return 0
}

// maxDevices is beyond what any person carries.
const maxDevices = 1000

// DefaultConfig is what a mesh is founded with.
func DefaultConfig() Config {
	const day = 24 * time.Hour
	return Config{
		CertLife:     CertLives{Node: Duration(90 * day), Admin: Duration(90 * day), Mgmt: Duration(90 * day)},
		StaleIfError: Duration(day),
		Epoch:        1,
	}
}

// Validate reports every fault at once. It returns ErrInvalid.
func (c Config) Validate() error {
	var errs []error
	add := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("mesh: config: "+format+": %w", append(args, ErrInvalid)...))
		}
	}
	life := func(name string, d Duration) {
		add(d >= Duration(minCertLife) && d <= Duration(825*24*time.Hour), "certLife.%s %v: want %v to 19800h", name, d, minCertLife)
	}
	life("node", c.CertLife.Node)
	life("admin", c.CertLife.Admin)
	life("mgmt", c.CertLife.Mgmt)
	add(c.Bot.DeviceLimit >= 0 && c.Bot.DeviceLimit <= maxDevices, "bot.deviceLimit %d: want 0 to %d", c.Bot.DeviceLimit, maxDevices)
	add(c.RenewGrace >= 0, "renewGrace %v: want 0 or more", c.RenewGrace)
	add(c.StaleIfError >= 0, "staleIfError %v: want 0 or more", c.StaleIfError)
	add(c.Epoch >= 1, "epoch %d: want 1 or more", c.Epoch)
	add(c.Restored.Collect >= 0, "restored.collect %v: want 0 or more", c.Restored.Collect)
	for _, err := range c.Subscription.validate() {
		add(false, "subscription.%w", err)
	}
	for _, err := range c.Alerts.validate() {
		add(false, "alerts.%w", err)
	}
	for _, err := range c.Labels.validate() {
		add(false, "labels.%w", err)
	}
	return errors.Join(errs...)
}

// Duration is a time.Duration that reads and prints as "2160h0m0s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText prints the form that UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads "90s", "2160h" and the like, and whole days, which Go has
// no unit for: "7d". It returns ErrInvalid.
func (d *Duration) UnmarshalText(b []byte) error {
	const day, most = 24 * time.Hour, 36500
	if days, ok := strings.CutSuffix(string(b), "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 32); err == nil && n <= most {
			*d = Duration(time.Duration(n) * day)
			return nil
		}
	}
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("mesh: duration %q: want a number with a unit, such as 90s, 24h or 7d: %w", Quotable(string(b)), ErrInvalid)
	}
	*d = Duration(v)
	return nil
}
