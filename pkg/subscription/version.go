package subscription

import (
	"slices"
	"strconv"
	"strings"
)

// version is 1.12.3 as numbers; what follows the numbers of a release is not
// looked at.
type version []int

func (v version) before(o version) bool { return slices.Compare(v, o) < 0 }

// parseVersion reads "1.12" and the like, and nothing else.
func parseVersion(s string) (version, bool) {
	v, rest := scanVersion(s)
	return v, len(v) > 0 && rest == ""
}

// versionAfter reads the version that follows a name in a User-Agent: "/1.12.3"
// or " 1.12.3", with a v perhaps, and with whatever may follow.
func versionAfter(rest string) (version, bool) {
	if rest == "" || rest[0] != '/' && rest[0] != ' ' {
		return nil, false
	}
	v, _ := scanVersion(strings.TrimPrefix(rest[1:], "v"))
	return v, len(v) > 0
}

// scanVersion reads at most four numbers of at most nine digits.
func scanVersion(s string) (version, string) {
	var v version
	for len(v) < 4 {
		digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
		if digits == 0 || digits > 9 {
			break
		}
		n, err := strconv.Atoi(s[:digits])
		if err != nil {
			break
		}
		v, s = append(v, n), s[digits:]
		if len(s) < 2 || s[0] != '.' || s[1] < '0' || s[1] > '9' {
			break
		}
		s = s[1:]
	}
	return v, s
}
