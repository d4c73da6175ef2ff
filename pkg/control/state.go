package control

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/meshctl/meshctl/internal/durable"
	"github.com/meshctl/meshctl/pkg/control/controlpb"
	"github.com/meshctl/meshctl/pkg/mesh"
)

const (
	nodeFile   = "node.json"
	configFile = "config.json"
	// maxAddresses bounds what a server may make a node remember.
	maxAddresses = 16
)

// State is what a node remembers across restarts beside its identity: who it
// is among copies of itself, where management is, and the configuration that
// last ran. It is safe for concurrent use.
type State struct {
	dir   string
	start int64

	mu     sync.Mutex // guards the fields below and the files
	node   nodeState
	config *controlpb.Config
}

type nodeState struct {
	Instance  string   `json:"instance"`
	Boot      int64    `json:"boot"`
	Addresses []string `json:"addresses"`
}

// OpenState reads the state in dir, a folder that exists already, and starts
// one where there is none. A damaged file is replaced by its previous version,
// which log tells; when both are damaged the error names the file.
func OpenState(dir string, log *slog.Logger) (*State, error) {
	s := &State{dir: dir}
	if err := s.load(log, nodeFile, func(b []byte) error { return parseNode(b, &s.node) }); err != nil {
		return nil, mesh.WithHint(err, "move the file away and start the node with the addresses of management, or join again")
	}
	if s.node.Instance == "" {
		s.node.Instance = rand.Text()
		if err := s.saveNode(); err != nil {
			return nil, err
		}
	}
	s.start = s.node.Boot + 1
	err := s.load(log, configFile, func(b []byte) error {
		c := new(controlpb.Config)
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, c); err != nil {
			return err
		}
		s.config = c
		return nil
	})
	if err != nil {
		// Management sends it again; nothing is lost but the time until then.
		log.Warn("stored configuration ignored", "err", err)
	}
	return s, nil
}

func (s *State) load(log *slog.Logger, name string, parse func([]byte) error) error {
	older, err := durable.Read(filepath.Join(s.dir, name), parse)
	if errors.Is(err, mesh.ErrNotFound) {
		return nil
	}
	if older {
		log.Warn("damaged file replaced by its previous version", "file", filepath.Join(s.dir, name))
	}
	return err
}

func parseNode(b []byte, out *nodeState) error {
	var n nodeState
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	if n.Instance == "" {
		return fmt.Errorf("no instance: %w", mesh.ErrInvalid)
	}
	*out = n
	return nil
}

// saveNode is called with mu held, or before s is shared.
func (s *State) saveNode() error {
	b, err := json.Marshal(s.node)
	if err != nil {
		return fmt.Errorf("control: save state: %w", err)
	}
	return durable.Write(filepath.Join(s.dir, nodeFile), b)
}

// Instance is random and made with the folder: it tells a copy of the folder
// from a restart of the node.
func (s *State) Instance() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node.Instance
}

// NextBoot returns a number higher than any it returned before.
func (s *State) NextBoot() (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.node.Boot++
	return s.node.Boot, s.saveNode()
}

// Start is what NextBoot returned first, or is about to: it names this start of
// the node.
func (s *State) Start() int64 { return s.start }

// Addresses are host:port of management.
func (s *State) Addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.node.Addresses)
}

// SetAddresses replaces the addresses of management. An empty list is ignored:
// a node that knows no address could never learn one. It returns ErrInvalid.
func (s *State) SetAddresses(addrs []string) error {
	if len(addrs) > maxAddresses {
		return fmt.Errorf("control: %d addresses of management: want at most %d: %w", len(addrs), maxAddresses, mesh.ErrInvalid)
	}
	for _, a := range addrs {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("control: address of management %q: want host:port: %w", mesh.Quotable(a), mesh.ErrInvalid)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(addrs) == 0 || slices.Equal(addrs, s.node.Addresses) {
		return nil
	}
	s.node.Addresses = slices.Clone(addrs)
	return s.saveNode()
}

// Config is the configuration that last ran, or nil.
func (s *State) Config() *controlpb.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

// SetConfig stores a configuration that runs.
func (s *State) SetConfig(c *controlpb.Config) error {
	b, err := protojson.Marshal(c)
	if err != nil {
		return fmt.Errorf("control: save configuration: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = proto.CloneOf(c)
	return durable.Write(filepath.Join(s.dir, configFile), b)
}

// forgetRevision keeps the configuration and forgets which one it is.
func (s *State) forgetRevision() error {
	c := s.Config()
	if c.GetRevision() == 0 {
		return nil
	}
	c = proto.CloneOf(c)
	c.Revision = 0
	return s.SetConfig(c)
}
