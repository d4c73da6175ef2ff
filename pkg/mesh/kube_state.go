package mesh

import (
	"slices"
	"time"
)

// KubeCredentialSoon is how long before its end a credential is to be replaced.
const KubeCredentialSoon = 7 * 24 * time.Hour

// KubeStarting is the contact with a cluster before its first answer.
const KubeStarting = "starting"

// Ordered is the release whose objects are to be in a cluster in this state; the
// zero value is none. A release that failed is not tried again: until there is
// another one, what ran before it is wanted.
func (k KubeCluster) Ordered(s KubeState) EntryRelease {
	if k.Removing || k.Wanted.Number == 0 {
		return EntryRelease{}
	}
	if s.Parked == k.Wanted.Number && s.Ran != k.Wanted.Number {
		if i := slices.IndexFunc(k.Earlier, func(r EntryRelease) bool { return r.Number == s.Ran }); i >= 0 {
			return k.Earlier[i]
		}
	}
	return k.Wanted
}

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

// TallyPods counts pods.
func TallyPods(pods []KubePod) KubeTally {
	t := KubeTally{All: len(pods)}
	for _, p := range pods {
		switch {
		case p.Ending:
			t.Ending++
		case p.Ready:
			t.Ready++
		}
	}
	return t
}

// Counted counts the pods of the cluster, whether all are described or not.
func (s KubeState) Counted() KubeTally {
	if s.Tally.All >= len(s.Pods) {
		return s.Tally
	}
	return TallyPods(s.Pods)
}
