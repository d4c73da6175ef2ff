package adminsvc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store"
)

func (s *Service) memberList(ctx context.Context, req admin.Page) (admin.List[admin.MemberView], error) {
	u, err := s.usage(ctx)
	if err != nil {
		return admin.List[admin.MemberView]{}, err
	}
	return list(ctx, req, s.Store.Members.Page, func(_ string, m mesh.Member) (admin.MemberView, bool) {
		return u.member(m), true
	})
}

func (s *Service) memberGet(ctx context.Context, req admin.Ref) (admin.MemberView, error) {
	m, err := s.Store.Members.Lookup(ctx, req.Ref)
	if err != nil {
		return admin.MemberView{}, err
	}
	v, err := s.memberView(ctx, m)
	if err != nil {
		return v, err
	}
	v.DeviceList, err = s.devicesOf(ctx, m.ID)
	return v, err
}

// devicesOf are a member's devices in order of name.
func (s *Service) devicesOf(ctx context.Context, id mesh.MemberID) ([]admin.DeviceView, error) {
	l, err := s.deviceList(ctx, admin.DeviceListRequest{Member: string(id), Page: admin.Page{Limit: maxPage}})
	slices.SortFunc(l.Items, func(a, b admin.DeviceView) int { return strings.Compare(a.Name, b.Name) })
	return l.Items, err
}

func (s *Service) memberView(ctx context.Context, m mesh.Member) (admin.MemberView, error) {
	u, err := s.usage(ctx)
	return u.member(m), err
}

func (s *Service) memberAdd(ctx context.Context, req admin.MemberAddRequest) (admin.MemberView, error) {
	if err := mesh.CheckName(req.Name); err != nil {
		return admin.MemberView{}, err
	}
	if err := checkNote(req.Note); err != nil {
		return admin.MemberView{}, err
	}
	m := s.NewMember(req.Name, req.Note)
	err := s.change(ctx, "member.add", func(tx *store.Tx) error {
		return store.Create(tx, s.Store.Members, m.ID, m)
	})
	return admin.MemberView{Member: m}, err
}

// NewMember is a member as they begin.
func (s *Service) NewMember(name, note string) mesh.Member {
	return mesh.Member{ID: mesh.NewMemberID(), Name: name, Note: note, State: mesh.MemberActive, Created: s.now()}
}

const maxNote = 1000

func checkNote(note string) error {
	if len(note) > maxNote {
		return fmt.Errorf("admin: note of %d bytes: want at most %d: %w", len(note), maxNote, mesh.ErrInvalid)
	}
	return nil
}

func (s *Service) memberSet(ctx context.Context, req admin.MemberSetRequest) (admin.MemberView, error) {
	var out mesh.Member
	err := s.change(ctx, "member.set", func(tx *store.Tx) error {
		m, err := store.Lookup(tx, s.Store.Members, req.Ref)
		if err != nil {
			return err
		}
		err = store.Update(tx, s.Store.Members, m.ID, func(m *mesh.Member) error {
			err := setMember(m, req)
			out = *m
			return err
		})
		if err != nil || req.State == nil {
			return err
		}
		if out.State == mesh.MemberArchived && m.State != mesh.MemberArchived {
			if err := s.remember(ctx, tx, mesh.ObjectMember+string(m.ID)); err != nil {
				return err
			}
		}
		return s.syncMember(tx, m.ID)
	})
	if err != nil {
		return admin.MemberView{}, err
	}
	return s.memberView(ctx, out)
}

func setMember(m *mesh.Member, req admin.MemberSetRequest) error {
	if req.Name != nil {
		if err := mesh.CheckName(*req.Name); err != nil {
			return err
		}
		m.Name = *req.Name
	}
	if req.Note != nil {
		if err := checkNote(*req.Note); err != nil {
			return err
		}
		m.Note = *req.Note
	}
	if req.DeviceLimit != nil {
		if err := setDeviceLimit(m, *req.DeviceLimit); err != nil {
			return err
		}
	}
	if req.State == nil || *req.State == m.State {
		return nil
	}
	switch *req.State {
	case mesh.MemberActive, mesh.MemberSuspended, mesh.MemberArchived:
	default:
		return fmt.Errorf("admin: member state %q: want active, suspended or archived: %w", mesh.Quotable(string(*req.State)), mesh.ErrInvalid)
	}
	if m.State == mesh.MemberArchived {
		return fmt.Errorf("admin: member %s is archived, which is final: %w", m.Name, mesh.ErrConflict)
	}
	m.State = *req.State
	return nil
}

// maxDeviceLimit is beyond what any person carries.
const maxDeviceLimit = 1000

// setDeviceLimit takes -1 for what the configuration says.
func setDeviceLimit(m *mesh.Member, n int) error {
	switch {
	case n < -1 || n > maxDeviceLimit:
		return fmt.Errorf("admin: device limit %d: want 0 to %d, or -1 for the default: %w", n, maxDeviceLimit, mesh.ErrInvalid)
	case n == -1:
		m.DeviceLimit = nil
	default:
		m.DeviceLimit = &n
	}
	return nil
}

func (s *Service) memberRemove(ctx context.Context, req admin.Ref) (admin.None, error) {
	return admin.None{}, s.change(ctx, "member.remove", func(tx *store.Tx) error {
		m, err := store.Lookup(tx, s.Store.Members, req.Ref)
		if err != nil {
			return err
		}
		u, err := s.usageIn(tx)
		if err != nil {
			return err
		}
		v := u.member(m)
		if v.Devices > 0 || v.Cores > 0 {
			return mesh.WithHint(
				fmt.Errorf("admin: member %s has %s and %s: %w", m.Name, some(v.Devices, "device"), some(v.Cores, "core"), mesh.ErrConflict),
				"remove them first (meshctl admin device list --member "+string(m.ID)+"), or archive the member, which keeps the record")
		}
		if err := s.noToken(tx, func(t mesh.Token) bool { return t.Member == m.ID }, "member "+m.Name); err != nil {
			return err
		}
		if err := store.Delete(tx, s.Store.Members, m.ID); err != nil || m.State == mesh.MemberArchived {
			return err
		}
		return s.remember(ctx, tx, mesh.ObjectMember+string(m.ID))
	})
}

// noToken refuses while an unused token depends on what is to be removed.
func (s *Service) noToken(tx *store.Tx, names func(mesh.Token) bool, what string) error {
	tokens, err := store.List(tx, s.Store.Tokens)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if t.State(s.now()) == mesh.TokenUnused && names(t) {
			return mesh.WithHint(fmt.Errorf("admin: an unused token names %s: %w", what, mesh.ErrConflict),
				"revoke it first: meshctl admin token revoke "+string(t.ID))
		}
	}
	return nil
}

// some is "no cores", "1 core", "2 cores".
func some(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
