package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// dialSSH runs one of the programs on an SSH server. Nothing of the user's own
// configuration is read.
func dialSSH(ctx context.Context, rm Remote, s service, idle time.Duration) (_ link, err error) {
	host, port, path, err := sshAddress(rm.URL)
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort(host, port)
	hosts, err := readHosts(rm.KnownHosts)
	if err != nil {
		return nil, err
	}
	l := &sshLink{}
	defer func() {
		if err != nil {
			l.hangUp()
		}
	}()
	auth, err := l.auth(ctx, rm)
	if err != nil {
		return nil, err
	}
	if l.conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr); err != nil {
		return nil, fmt.Errorf("connect: %w: %w", err, mesh.ErrUnavailable)
	}
	l.stop = context.AfterFunc(ctx, func() { l.conn.Close() })
	var hostKey error
	conf := &ssh.ClientConfig{
		User: rm.User, Auth: auth, HostKeyAlgorithms: hosts.algorithms(addr),
		HostKeyCallback: func(name string, remote net.Addr, key ssh.PublicKey) error {
			hostKey = hosts.check(name, remote, key)
			return hostKey
		},
	}
	if err := l.conn.SetDeadline(time.Now().Add(idle)); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	c, chans, reqs, err := ssh.NewClientConn(l.conn, addr, conf)
	if err != nil {
		return nil, handshakeFault(err, hostKey)
	}
	l.client = ssh.NewClient(c, chans, reqs)
	if err := l.conn.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return l, l.start(string(s) + " " + shellQuote(path))
}

func handshakeFault(err, hostKey error) error {
	if hostKey != nil {
		return hostKey
	}
	switch {
	case strings.Contains(err.Error(), "unable to authenticate"):
		return faultf(ReasonAuth, "log in: the server refuses the key: %w", mesh.ErrDenied)
	case ReasonOf(err) == ReasonTimeout:
		return faultf(ReasonTimeout, "connect: %w: %w", err, mesh.ErrUnavailable)
	default:
		return faultf(ReasonConnection, "connect: %w: %w", err, mesh.ErrUnavailable)
	}
}

// sshAddress takes ssh://user@host:port/path and user@host:path apart.
func sshAddress(raw string) (host, port, path string, err error) {
	if !strings.Contains(raw, "://") {
		login, path, _ := strings.Cut(raw, ":")
		if _, h, ok := strings.Cut(login, "@"); ok {
			login = h
		}
		return login, "22", path, nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", "", "", fmt.Errorf("URL is not readable: %w", mesh.ErrInvalid)
	}
	if port = u.Port(); port == "" {
		port = "22"
	}
	path = u.Path
	if strings.HasPrefix(path, "/~") {
		path = path[1:]
	}
	return u.Hostname(), port, path, nil
}

// shellQuote makes one word of s for the shell at the other end.
func shellQuote(s string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(s) + "'"
}

type sshLink struct {
	conn    net.Conn
	agent   net.Conn
	client  *ssh.Client
	session *ssh.Session
	in      io.WriteCloser
	out     io.Reader
	stderr  saidBuffer
	asked   bool
	stop    func() bool
}

// auth is the key, or the agent that this process was given.
func (l *sshLink) auth(ctx context.Context, rm Remote) ([]ssh.AuthMethod, error) {
	switch rm.Auth {
	case mesh.BackupAuthSSHKey:
		key, err := ssh.ParsePrivateKey([]byte(rm.Credential.Reveal()))
		if err != nil {
			// The cause may quote the key.
			return nil, faultf(ReasonAuth, "the credential is not an SSH private key without passphrase: %w", mesh.ErrInvalid)
		}
		return []ssh.AuthMethod{ssh.PublicKeys(key)}, nil
	case mesh.BackupAuthAgent:
		sock := os.Getenv("SSH_AUTH_SOCK")
		if sock == "" {
			return nil, faultf(ReasonAuth, "no SSH agent: SSH_AUTH_SOCK is not set: %w", mesh.ErrUnavailable)
		}
		conn, err := new(net.Dialer).DialContext(ctx, "unix", sock)
		if err != nil {
			return nil, faultf(ReasonAuth, "SSH agent: %w: %w", err, mesh.ErrUnavailable)
		}
		l.agent = conn
		return []ssh.AuthMethod{ssh.PublicKeysCallback(agent.NewClient(conn).Signers)}, nil
	default:
		return nil, faultf(ReasonAuth, "SSH wants a key or an agent: %w", mesh.ErrInvalid)
	}
}

func (l *sshLink) start(command string) (err error) {
	if l.session, err = l.client.NewSession(); err != nil {
		return faultf(ReasonConnection, "connect: %w: %w", err, mesh.ErrUnavailable)
	}
	l.session.Stderr = &l.stderr
	if l.in, err = l.session.StdinPipe(); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if l.out, err = l.session.StdoutPipe(); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := l.session.Start(command); err != nil {
		return faultf(ReasonConnection, "connect: %w: %w", err, mesh.ErrUnavailable)
	}
	return nil
}

func (l *sshLink) advertised() io.Reader { return l.out }

// said waits for the end of the session, so that the complaint is whole.
func (l *sshLink) said() string {
	_ = l.in.Close()
	_ = l.session.Wait() // how it ended is in what it said
	return l.stderr.String()
}

func (l *sshLink) ask(_ context.Context, body io.Reader, _ int64) (io.Reader, error) {
	l.asked = true
	return askStream(l.in, l.out, body)
}

func (l *sshLink) close() error {
	endStream(l.in, l.asked)
	return l.hangUp()
}

func (l *sshLink) hangUp() error {
	var errs []error
	if l.client != nil {
		errs = append(errs, l.client.Close())
	} else if l.conn != nil {
		errs = append(errs, l.conn.Close())
	}
	if l.agent != nil {
		errs = append(errs, l.agent.Close())
	}
	if l.stop != nil {
		l.stop()
	}
	return errors.Join(errs...)
}
