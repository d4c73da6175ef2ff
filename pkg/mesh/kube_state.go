package mesh

import (
	"slices"
	"time"
)

// KubeCredentialSoon is how long before its end a credential is to be replaced.
const KubeCredentialSoon = 7 * 24 * time.Hour

// KubeStarting is the contact with a cluster before its first answer.
const KubeStarting = "starting"

// Well says whether the API of the cluster answers well, or was not asked yet.
func (s KubeState) Well() bool { return s.Contact == "" || s.Contact == KubeStarting }

// Reached is how the API is reached, with its own words; "" is well.
func (s KubeState) Reached() string {
	if s.Detail == "" {
		return s.Contact
	}
	return s.Contact + ": " + s.Detail
}

// Down are the addresses that were tried and lead to no entry.
func (s KubeState) Down() []KubeAddress {
	return slices.DeleteFunc(slices.Clone(s.Addresses), func(a KubeAddress) bool { return a.Up || a.Tried.IsZero() })
}
