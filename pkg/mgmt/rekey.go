package mgmt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

// Another data key comes in steps. How far it is, is in the store, without any
// key; a key goes from server to server alone, and each writes it to its disk
// before it says that it has it.
//
//	handing ─all have both─▶ sealing ─all seal with the new one, nothing is
//	under the old one─▶ dropping ─all have the new one alone─▶ done
//
// Whoever is asked takes the next step, and any server can go on where another
// was stopped. One that was off does at its start what the store says.
const blobRekey = "rekey"

type rekeyStep string

const (
	rekeyHanding  rekeyStep = "handing"
	rekeySealing  rekeyStep = "sealing"
	rekeyDropping rekeyStep = "dropping"
	rekeyDone     rekeyStep = "done"
)

// rekeyState is the value of blobRekey. From and To are ids of keys.
type rekeyState struct {
	From  string    `json:"from"`
	To    string    `json:"to"`
	Step  rekeyStep `json:"step"`
	Since time.Time `json:"since"` // of the step
}

func (s rekeyState) underWay() bool { return s.Step != "" && s.Step != rekeyDone }

// keysOf are the keys a server has at that step, of those that it holds.
func (s rekeyState) keysOf(have [][32]byte) ([][32]byte, error) {
	var need, may []string
	switch s.Step {
	case "":
		return have, nil
	case rekeyHanding:
		need, may = []string{s.From}, []string{s.To}
	case rekeySealing:
		need = []string{s.To, s.From}
	case rekeyDropping, rekeyDone:
		need = []string{s.To}
	default:
		return nil, fmt.Errorf("mgmt: replace data key: step %q is of a newer version: %w", mesh.Quotable(string(s.Step)), mesh.ErrInvalid)
	}
	var out [][32]byte
	for _, id := range slices.Concat(need, may) {
		i := slices.IndexFunc(have, func(k [32]byte) bool { return store.DataKeyID(k) == id })
		switch {
		case i >= 0:
			out = append(out, have[i])
		case slices.Contains(need, id):
			return nil, setupf("remove this server (meshctl admin mgmt remove NAME), empty its data folder and let it in anew",
				"the data key %s is not on this server: its %s is older than the last rekey", id, fileDataKey)
		}
	}
	return out, nil
}

func (c *cluster) rekeyState(ctx context.Context) (s rekeyState, err error) {
	_, err = c.r.store.View(ctx, func(tx *store.Tx) error {
		s, err = c.rekeyIn(tx)
		return err
	})
	return s, err
}

func (c *cluster) rekeyIn(tx *store.Tx) (rekeyState, error) {
	var s rekeyState
	b, err := store.Get(tx, c.r.store.CA, blobRekey)
	if errors.Is(err, mesh.ErrNotFound) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b.Data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("mgmt: read how far the data key is: %w", err)
	}
	return s, nil
}

// putRekey goes from one state to the next, unless somebody else has.
func (c *cluster) putRekey(ctx context.Context, by store.By, from, to rekeyState, also ...func(*store.Tx) error) error {
	data, err := json.Marshal(to)
	if err != nil {
		return fmt.Errorf("mgmt: replace data key: %w", err)
	}
	b := store.Blob{Data: data, Created: to.Since}
	_, err = c.r.store.Change(ctx, by, "secrets.rekey", func(tx *store.Tx) error {
		if err := c.stillAt(tx, from); err != nil {
			return err
		}
		for _, f := range also {
			if err := f(tx); err != nil {
				return err
			}
		}
		err := store.Update(tx, c.r.store.CA, blobRekey, func(x *store.Blob) error {
			*x = b
			return nil
		})
		if errors.Is(err, mesh.ErrNotFound) {
			err = store.Create(tx, c.r.store.CA, blobRekey, b)
		}
		return err
	})
	return err
}

// stillAt refuses a transaction of whoever was overtaken.
func (c *cluster) stillAt(tx *store.Tx, want rekeyState) error {
	now, err := c.rekeyIn(tx)
	if err == nil && (now.Step != want.Step || now.To != want.To || now.From != want.From) {
		err = errAgain
	}
	return err
}

// followRekey does on this server what the store says: first on the disk.
func (c *cluster) followRekey(ctx context.Context, more ...[32]byte) error {
	c.keyed.Lock()
	defer c.keyed.Unlock()
	s, err := c.rekeyState(ctx)
	if err != nil {
		return err
	}
	have := c.r.store.DataKeys()
	want, err := s.keysOf(slices.Concat(have, more))
	if err != nil {
		return err
	}
	path := c.r.folder.path(fileDataKey)
	if slices.Equal(want, have) {
		return setup(store.ForgetDataKeys(path))
	}
	// What a key is to open is written after it is on the disk, and a key goes
	// from the disk after nothing is sealed under it: either way the disk is first.
	if err := setup(store.ReplaceDataKeys(path, want...)); err != nil {
		return err
	}
	c.r.store.SetDataKeys(want)
	c.log.Info("data keys changed", "count", len(want))
	return nil
}

// keyIDs are the ids of the keys that this server has.
func (c *cluster) keyIDs() []string {
	var out []string
	for _, k := range c.r.store.DataKeys() {
		out = append(out, store.DataKeyID(k))
	}
	return out
}
