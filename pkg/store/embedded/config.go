package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// slow is how long a request may take before etcd warns: below it a busy disk
// would fill the log.
const slow = time.Second

// config is etcd's configuration. etcd's own Validate sets up logging, which is
// why the logger is part of it.
func (m *Member) config() (*embed.Config, error) {
	peer, err := parseURL("peer", m.PeerURL)
	if err != nil {
		return nil, err
	}
	client, err := parseURL("client", m.ClientURL)
	if err != nil {
		return nil, err
	}
	if a, err := netip.ParseAddr(client.Hostname()); err != nil || !a.IsLoopback() {
		return nil, fmt.Errorf("client URL %s: want a loopback address: %w", m.ClientURL, mesh.ErrInvalid)
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = m.Name, m.Dir
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.InitialCluster, cfg.InitialClusterToken = m.Cluster, m.Token
	if m.Cluster == "" {
		cfg.InitialCluster = m.Name + "=" + peer.String()
	}
	if m.Existing {
		cfg.ClusterState = embed.ClusterStateFlagExisting
	}
	cfg.ForceNewCluster = m.ForceNew
	m.tune(cfg)
	m.secure(cfg)
	lg := zap.New(&bridge{log: m.Log, removed: m.noteRemoved}, zap.WithFatalHook(fatal{}))
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(lg)
	return cfg, nil
}

func (m *Member) tune(cfg *embed.Config) {
	cfg.QuotaBackendBytes = orDefault(m.Quota, DefaultQuota)
	cfg.TickMs = uint(orDefault(m.Heartbeat, 100*time.Millisecond).Milliseconds())
	cfg.ElectionMs = uint(m.election().Milliseconds())
	cfg.AutoCompactionMode = embed.CompactorModePeriodic
	cfg.AutoCompactionRetention = orDefault(m.Retention, time.Hour).String()
	cfg.WarningUnaryRequestDuration, cfg.WarningApplyDuration = slow, slow
	cfg.EnableGRPCGateway = false // a second way in that nobody needs
	cfg.UnsafeNoFsync = m.UnsafeNoFsync
}

func (m *Member) election() time.Duration { return orDefault(m.Election, time.Second) }

func orDefault[T int64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

func (m *Member) secure(cfg *embed.Config) {
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile: m.file(fileServer), KeyFile: m.file(fileServer), TrustedCAFile: m.file(fileCA),
		ClientCertFile: m.file(fileClient), ClientKeyFile: m.file(fileClient),
		ClientCertAuth: true, AllowedCNs: []string{ClientName},
	}
	cfg.PeerTLSInfo = transport.TLSInfo{
		CertFile: m.file(filePeer), KeyFile: m.file(filePeer), TrustedCAFile: m.file(fileCA),
		ClientCertAuth: true, AllowedCNs: []string{PeerName},
		// A server with several addresses may call from another than it listens on.
		SkipClientSANVerify: true,
	}
	cfg.TlsMinVersion = "TLS1.3"
}

func parseURL(what, s string) (url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "" {
		return url.URL{}, fmt.Errorf("%s URL %q: want https://host:port: %w", what, mesh.Quotable(s), mesh.ErrInvalid)
	}
	return *u, nil
}

// start turns etcd's ways of failing, some of which end the process, into an
// error.
func (m *Member) start() (e *embed.Etcd, err error) {
	cfg, err := m.config()
	if err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, m.damaged(p)
		}
	}()
	if err := errors.Join(m.discardUnbegun(), m.checkDatabase()); err != nil {
		return nil, err
	}
	if e, err = embed.StartEtcd(cfg); err != nil {
		return nil, m.startError(err)
	}
	return e, nil
}

// fatal makes etcd's log.Fatal a panic: while it starts, that is recovered and
// becomes an error with a hint; later it ends the process, as etcd wants.
type fatal struct{}

type fatalLog struct {
	msg   string
	err   string
	cause error
}

// Error is what Go prints above the stack when this ends the process.
func (f fatalLog) Error() string {
	text := "etcd cannot go on: " + f.msg + f.err
	if errors.Is(f.cause, syscall.ENOSPC) {
		text += "; make room on its disk and start it again, nothing is lost"
	}
	return text
}

func (fatal) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	f := fatalLog{msg: e.Message}
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			f.err, f.cause = ": "+err.Error(), err
		}
	}
	panic(f)
}

func (m *Member) damaged(p any) error {
	text := fmt.Sprint(p)
	if f, ok := p.(fatalLog); ok {
		if text = f.msg + f.err; errors.Is(f.cause, syscall.ENOSPC) {
			return m.noRoom(fmt.Errorf("%s: %w", f.msg, f.cause))
		}
	}
	return mesh.WithHint(fmt.Errorf("etcd's data in %s is damaged: %s", m.Dir, text),
		"keep a copy of the folder; with other servers in the mesh replace this one, otherwise restore a backup")
}

// noRoom is what a full disk means: nothing is wrong with what is there.
func (m *Member) noRoom(err error) error {
	return mesh.WithHint(fmt.Errorf("%w: %w", err, mesh.ErrUnavailable),
		"make room on the disk of "+m.Dir+", a gigabyte or more, and start it again; nothing is lost")
}

// startError says what to do about it. Whatever else keeps a member from
// resuming lies in its data.
func (m *Member) startError(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return mesh.WithHint(err, "the folder has to belong to the user that runs meshctl")
	case errors.Is(err, syscall.ENOSPC):
		return m.noRoom(err)
	case errors.Is(err, syscall.EADDRINUSE):
		return mesh.WithHint(fmt.Errorf("%w: %w", err, mesh.ErrUnavailable), "stop what else listens on that address, or configure another")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return mesh.WithHint(err, "this machine does not have that address")
	case m.resumes:
		return m.damaged(err)
	}
	return err
}
