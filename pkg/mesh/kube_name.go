package mesh

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// CheckKubeName checks the name of a cluster, which becomes part of the names of
// its entries: 1 to 63 of a-z, 0-9 and inner hyphens, and no id. It returns
// ErrInvalid.
func CheckKubeName(s string) error {
	if s != foldASCII(s) || !isLDH(s) || IsID(s) {
		return fmt.Errorf("mesh: name of a cluster %q: want 1 to 63 of a-z, 0-9 and inner hyphens, and no id: %w", Quotable(s), ErrInvalid)
	}
	return nil
}

// CheckNamespace checks the name of a namespace of Kubernetes. It returns
// ErrInvalid.
func CheckNamespace(s string) error {
	bad := func(why string) error {
		return fmt.Errorf("mesh: namespace %q: %s: %w", Quotable(s), why, ErrInvalid)
	}
	switch {
	case s != foldASCII(s) || !isLDH(s):
		return bad("want 1 to 63 of a-z, 0-9 and inner hyphens")
	case s == "default" || strings.HasPrefix(s, "kube-"):
		return bad("this one has what others put there; want one for the entries alone")
	}
	return nil
}

// isSubdomain says whether s can be the name of an object.
func isSubdomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if part != foldASCII(part) || !isLDH(part) {
			return false
		}
	}
	return true
}

var (
	labelName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$`)
)

// isQualified says whether s can be the key of a label or an annotation: NAME or
// PREFIX/NAME.
func isQualified(s string) bool {
	prefix, name, ok := strings.Cut(s, "/")
	if !ok {
		return labelName.MatchString(s)
	}
	return isSubdomain(prefix) && labelName.MatchString(name)
}

var quantity = regexp.MustCompile(`^([0-9]{1,12}(?:\.[0-9]{1,9})?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$`)

// units are thousandths in one of each.
var units = map[string]int64{
	"m": 1, "": 1e3, "k": 1e6, "M": 1e9, "G": 1e12, "T": 1e15, "P": 1e18,
	"Ki": 1e3 << 10, "Mi": 1e3 << 20, "Gi": 1e3 << 30, "Ti": 1e3 << 40, "Pi": 1e3 << 50,
}

// ParseQuantity reads an amount as Kubernetes writes it, "250m", "0.5" or "128Mi",
// in thousandths, rounded up. It returns ErrInvalid.
func ParseQuantity(s string) (int64, error) {
	bad := func(why string) (int64, error) {
		return 0, fmt.Errorf("mesh: quantity %q: %s: %w", Quotable(s), why, ErrInvalid)
	}
	m := quantity.FindStringSubmatch(s)
	if m == nil {
		return bad("want a number with a unit, such as 250m or 128Mi")
	}
	n, ok := new(big.Rat).SetString(m[1])
	if !ok {
		return bad("no number")
	}
	n.Mul(n, new(big.Rat).SetInt64(units[m[2]]))
	whole, rest := new(big.Int).QuoRem(n.Num(), n.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() {
		return bad("too large")
	}
	return whole.Int64(), nil
}
