package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/codec"
)

type part struct {
	Name string `json:"name"`
	Size int    `json:"size,omitzero"`
}

type whole struct {
	ID    string            `json:"id"`
	On    bool              `json:"on,omitzero"`
	Big   int64             `json:"big,omitzero"`
	At    time.Time         `json:"at,omitzero"`
	One   part              `json:"one,omitzero"`
	Ptr   *part             `json:"ptr,omitzero"`
	Parts []part            `json:"parts,omitzero"`
	Tags  map[string]string `json:"tags,omitzero"`
}

func TestAValueNamesItsSchema(t *testing.T) {
	b, err := codec.Encode(whole{ID: "a<b"})
	if want := `{"schema":1,"minReader":1,"id":"a<b"}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v; want %s", b, err, want)
	}
	b, err = codec.Encode(struct{}{})
	if want := `{"schema":1,"minReader":1}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v; want %s", b, err, want)
	}
}

func TestWhatIsNoObjectOrTooLargeIsNotEncoded(t *testing.T) {
	for _, v := range []any{1, "x", nil, []int{1}, func() {}, whole{ID: strings.Repeat("x", codec.MaxSize)}} {
		if b, err := codec.Encode(v); !errors.Is(err, mesh.ErrInvalid) {
			t.Errorf("%T: got %.40s, %v; want invalid", v, b, err)
		}
	}
}

func TestWhatNeedsANewerReaderIsRefused(t *testing.T) {
	_, err := codec.Decode[whole]([]byte(`{"schema":9,"minReader":7,"id":"x"}`))
	tooNew, ok := errors.AsType[*codec.TooNewError](err)
	if !ok || tooNew.Need != 7 || !strings.Contains(err.Error(), "schema 7") || !strings.Contains(mesh.Hint(err), "upgrade") || mesh.Kind(err) != nil {
		t.Errorf("got %v, hint %q", err, mesh.Hint(err))
	}
	if _, err := codec.Merge([]byte(`{"schema":9,"minReader":7}`), whole{}); err == nil {
		t.Error("merged into what it cannot read")
	}
	v, err := codec.Decode[whole]([]byte(`{"schema":9,"minReader":1,"id":"x","new":1}`))
	if err != nil || v.ID != "x" {
		t.Errorf("got %+v, %v from a newer writer", v, err)
	}
	v, err = codec.Decode[whole]([]byte(`{"id":"x"}`))
	if err != nil || v.ID != "x" {
		t.Errorf("got %+v, %v from a person", v, err)
	}
}

func TestDamageIsReported(t *testing.T) {
	for _, s := range []string{
		``, `{`, `null`, `[]`, `"x"`, `{"schema":1,"minReader":1`, `{"schema":1,"minReader":1}x`, `{"schema":1,"minReader":1,}`,
		`{"schema":1,"minReader":"1"}`, `{"schema":1,"minReader":1,"id":5}`, `{"schema":1,"minReader":10,"id":5}`[:30],
		strings.Repeat("x", codec.MaxSize+1),
	} {
		if v, err := codec.Decode[whole]([]byte(s)); err == nil || mesh.Hint(err) == "" {
			t.Errorf("%.60s: got %+v, %v; want an error with a hint", s, v, err)
		}
	}
	deep := `{"id":"x","new":` + strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200) + `}`
	if _, err := codec.Merge([]byte(deep), whole{ID: "y"}); err == nil {
		t.Error("merged 200 levels")
	}
}

func TestMergeKeepsWhatItDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct{ old, want string }{
		"a member":                      {`{"id":"x","new":{"a":[1,2]}}`, `{"schema":1,"minReader":1,"id":"y","new":{"a":[1,2]}}`},
		"a number of many digits":       {`{"id":"x","new":12345678901234567890.5}`, `{"schema":1,"minReader":1,"id":"y","new":12345678901234567890.5}`},
		"a member of a nested object":   {`{"id":"x","one":{"name":"n","new":1}}`, `{"schema":1,"minReader":1,"id":"y","one":{"name":"n","new":1}}`},
		"of one this version omits":     {`{"id":"x","one":{"new":1}}`, `{"schema":1,"minReader":1,"id":"y","one":{"new":1}}`},
		"of what a pointer leads to":    {`{"id":"x","ptr":{"name":"n","new":1}}`, `{"schema":1,"minReader":1,"id":"y","ptr":{"name":"n","new":1}}`},
		"a member of a list's element":  {`{"id":"x","parts":[{"name":"a"},{"name":"b","new":1}]}`, `{"schema":1,"minReader":1,"id":"y","parts":[{"name":"a"},{"name":"b","new":1}]}`},
		"the need of a newer reader":    {`{"schema":1,"minReader":1,"id":"x"}`, `{"schema":1,"minReader":1,"id":"y"}`},
		"but not another case of known": {`{"id":"x","ID":"x"}`, `{"schema":1,"minReader":1,"id":"y"}`},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := codec.Decode[whole]([]byte(c.old))
			if err != nil {
				t.Fatal(err)
			}
			v.ID = "y"
			got, err := codec.Merge([]byte(c.old), v)
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

func TestElementsOfAListKeepTheirsWhileTheirKnownPartIsTheSame(t *testing.T) {
	old := `{"id":"x","parts":[{"name":"a","new":1},{"name":"b","new":2},{"name":"b","new":3}]}`
	for name, c := range map[string]struct {
		change func(*whole)
		want   string
	}{
		"order":    {func(w *whole) { w.Parts[0], w.Parts[2] = w.Parts[2], w.Parts[0] }, `[{"name":"b","new":2},{"name":"b","new":3},{"name":"a","new":1}]`},
		"removal":  {func(w *whole) { w.Parts = w.Parts[1:] }, `[{"name":"b","new":2},{"name":"b","new":3}]`},
		"addition": {func(w *whole) { w.Parts = append([]part{{Name: "c"}}, w.Parts...) }, `[{"name":"c"},{"name":"a","new":1},{"name":"b","new":2},{"name":"b","new":3}]`},
		"change":   {func(w *whole) { w.Parts[0].Size = 5 }, `[{"name":"a","size":5},{"name":"b","new":2},{"name":"b","new":3}]`},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := codec.Decode[whole]([]byte(old))
			if err != nil {
				t.Fatal(err)
			}
			c.change(&v)
			got, err := codec.Merge([]byte(old), v)
			if want := `{"schema":1,"minReader":1,"id":"x","parts":` + c.want + `}`; err != nil || string(got) != want {
				t.Errorf("got  %s, %v\nwant %s", got, err, want)
			}
		})
	}
}

func TestAMemberThatBecameZeroIsGone(t *testing.T) {
	got, err := codec.Merge([]byte(`{"id":"x","on":true,"one":{"name":"n"},"tags":{"a":"b","c":"d"}}`), whole{ID: "x", Tags: map[string]string{"c": "d"}})
	if want := `{"schema":1,"minReader":1,"id":"x","tags":{"c":"d"}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// TestUnknownMembersSurviveAnyUpdate plants members of a newer schema at random
// places of random objects and changes the objects at random.
func TestUnknownMembersSurviveAnyUpdate(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		v := randomWhole(r)
		b, err := codec.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		m["schema"] = 2
		m["newTop"] = seed
		one, nested := m["one"].(map[string]any)
		if nested {
			one["newNested"] = map[string]any{"deep": []any{seed}}
		}
		var marked []string // name and size of elements that carry one
		for i, e := range list(m["parts"]) {
			if r.IntN(2) == 0 {
				e.(map[string]any)["newElement"] = i
				marked = append(marked, fmt.Sprint(v.Parts[i]))
			}
		}
		old, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		next, err := codec.Decode[whole](old)
		if err != nil {
			t.Fatal(err)
		}
		kept := mutate(r, &next)
		got, err := codec.Merge(old, next)
		if err != nil {
			t.Fatal(err)
		}
		check(t, seed, got, next, nested && !reflect.ValueOf(next.One).IsZero(), marked, kept)
	}
}

func list(v any) []any { l, _ := v.([]any); return l }

func check(t *testing.T, seed uint64, got []byte, next whole, nested bool, marked []string, kept map[string]bool) {
	t.Helper()
	back, err := codec.Decode[whole](got)
	if err != nil || !reflect.DeepEqual(normal(back), normal(next)) {
		t.Fatalf("seed %d: got %+v, %v; want %+v", seed, back, err, next)
	}
	var m map[string]any
	if err := json.Unmarshal(got, &m); err != nil {
		t.Fatal(err)
	}
	if m["newTop"] != float64(seed) {
		t.Fatalf("seed %d: the top lost its member: %s", seed, got)
	}
	if one, ok := m["one"].(map[string]any); nested && (!ok || one["newNested"] == nil) {
		t.Fatalf("seed %d: the nested object lost its member: %s", seed, got)
	}
	carry := 0
	for _, e := range list(m["parts"]) {
		if e.(map[string]any)["newElement"] != nil {
			carry++
		}
	}
	want := 0
	for _, name := range marked {
		if kept[name] {
			want++
		}
	}
	if carry != want {
		t.Fatalf("seed %d: %d elements carry a member, want %d: %s", seed, carry, want, got)
	}
}

// normal makes nil and empty alike.
func normal(w whole) whole {
	if len(w.Parts) == 0 {
		w.Parts = nil
	}
	return w
}

func randomWhole(r *rand.Rand) whole {
	w := whole{ID: "x", On: r.IntN(2) == 0, Big: r.Int64()}
	if r.IntN(2) == 0 {
		w.One = part{Name: "n", Size: r.IntN(3)}
	}
	for i := range r.IntN(5) {
		w.Parts = append(w.Parts, part{Name: fmt.Sprint("p", i), Size: r.IntN(3)})
	}
	return w
}

// mutate returns the elements, as printed, that are left unchanged.
func mutate(r *rand.Rand, w *whole) map[string]bool {
	w.On, w.Big, w.One.Size = r.IntN(2) == 0, r.Int64(), r.IntN(3)
	kept := map[string]bool{}
	var parts []part
	for _, p := range w.Parts {
		switch r.IntN(4) {
		case 0: // removed
		case 1:
			p.Size += 10
			parts = append(parts, p)
		default:
			kept[fmt.Sprint(p)] = true
			parts = append(parts, p)
		}
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	w.Parts = parts
	return kept
}

func FuzzDecodeAndMerge(f *testing.F) {
	f.Add([]byte(`{"schema":1,"minReader":1,"id":"x","parts":[{"name":"a","new":1}],"tags":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, old []byte) {
		v, err := codec.Decode[whole](old)
		if err != nil {
			return
		}
		v.Parts = append(v.Parts, part{Name: "added"})
		got, err := codec.Merge(old, v)
		if err != nil {
			return // too deep, or too large with the addition
		}
		back, err := codec.Decode[whole](got)
		if err != nil {
			t.Fatalf("%s became %s: %v", old, got, err)
		}
		if back.ID != v.ID || len(back.Parts) != len(v.Parts) {
			t.Fatalf("%s became %s", old, got)
		}
	})
}

func BenchmarkMerge(b *testing.B) {
	old := []byte(`{"schema":1,"minReader":1,"id":"x","new":1,"parts":[{"name":"a","new":1},{"name":"b"}],"one":{"name":"q"}}`)
	v, err := codec.Decode[whole](old)
	if err != nil {
		b.Fatal(err)
	}
	v.ID = "y"
	for b.Loop() {
		if _, err := codec.Merge(old, v); err != nil {
			b.Fatal(err)
		}
	}
}
