package mesh

import (
	"errors"
	"strings"
	"testing"
)

func TestParseServerName(t *testing.T) {
	long := strings.Repeat("a", 63)
	tests := []struct {
		in   string
		want ServerName // "" means refused
	}{
		{"a.example.net", "a.example.net"},
		{"NODE-A.Example.NET", "node-a.example.net"},
		{"node-a.example.net.", "node-a.example.net"},
		{"xn--80ak6aa92e.example", "xn--80ak6aa92e.example"},
		{long + ".example", ServerName(long + ".example")},
		{"1.2.3.4x", "1.2.3.4x"},

		{"", ""}, {".", ""}, {"..", ""}, {"a..b", ""}, {"a.b..", ""}, {"localhost", ""},
		{"a_b.example", ""}, {"-a.example", ""}, {"a-.example", ""}, {"*.example.net", ""},
		{"127.0.0.1", ""}, {"169.254.169.254", ""}, {"::1", ""}, {"[::1]", ""}, {"0x7f.1", ""},
		{"a.example.net\x00", ""}, {"a\r\nb.example", ""}, {"../../auth/", ""}, {"a/b.example", ""},
		{"пример.рф", ""}, {"a.example\u212a", ""}, // U+212A lower-cases to k elsewhere
		{long + "a.example", ""}, {strings.Repeat("a.", 127) + "a", ""},
	}
	for _, tt := range tests {
		got, err := ParseServerName(tt.in)
		if got != tt.want || (err != nil) != (tt.want == "") || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseServerName(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func FuzzParseServerName(f *testing.F) {
	for _, s := range []string{"a.example.net", "A.B.", "../x", "1.2.3.4", "\x00.a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseServerName(s)
		if err != nil {
			return
		}
		if strings.ContainsAny(string(n), "/\\\x00 \r\n*_%") || strings.ToLower(string(n)) != string(n) || len(n) > 253 {
			t.Fatalf("%q became %q", s, n)
		}
		if again, err := ParseServerName(string(n)); again != n || err != nil {
			t.Fatalf("%q is not a fixed point: %q, %v", n, again, err)
		}
	})
}

func TestUnderIsExactlyOneLabel(t *testing.T) {
	const suffix = ServerName("a.example.net")
	for n, want := range map[ServerName]bool{
		"x.a.example.net": true, "a.example.net": false, "y.x.a.example.net": false,
		"xa.example.net": false, "x.b.example.net": false, ".a.example.net": false,
	} {
		if got := n.Under(suffix); got != want {
			t.Errorf("%q under %q: got %v", n, suffix, got)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"Alice", "alice", "a.b", "Иван Петров", "🇩🇪 DE #1", "a+b", "50%", "x|y@z", "member-x", strings.Repeat("x", 100)} {
		if err := CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", " a", "a ", "a\nb", "a\x07", "\xff", strings.Repeat("x", 101), string(NewMemberID()), string(NewCoreID())} {
		if err := CheckName(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", bad, err)
		}
	}
}
