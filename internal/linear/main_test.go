package linear

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshctl/meshctl/pkg/mesh"
	"github.com/meshctl/meshctl/pkg/store/embedded"
)

// memberEnv makes this binary a member.
const memberEnv = "MESHCTL_LINEAR_MEMBER"

// spec is what a member process is told on its standard input.
type spec struct {
	Dir, Name, Listen, Proxy, Client, Cluster string
	CA                                        []byte
	Certs                                     [3][2]string // server, peer, client: certificate and key
}

func TestMain(m *testing.M) {
	if os.Getenv(memberEnv) != "" {
		if err := runMember(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// runMember is a member until its standard input ends, as it does when the test
// dies. It prints "ready", and then "leads" or "follows" at each change.
func runMember() error {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var s spec
	if err := json.Unmarshal(line, &s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // its end is what counts
		cancel()
	}()
	pair := func(i int) embedded.Pair {
		return embedded.Pair{Cert: []byte(s.Certs[i][0]), Key: mesh.Secret(s.Certs[i][1])}
	}
	m := &embedded.Member{
		Dir: s.Dir + "/etcd", TLSDir: s.Dir + "/tls", Name: s.Name, Token: "linear", Cluster: s.Cluster,
		PeerURL: "https://" + s.Listen, ClientURL: "https://" + s.Client,
		TLS:       embedded.Material{CA: s.CA, Server: pair(0), Peer: pair(1), Client: pair(2)},
		Heartbeat: 50 * time.Millisecond, Election: 500 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	told := make(chan struct{})
	err = m.Run(ctx, func() {
		go func() {
			defer close(told)
			tell(ctx, m, "https://"+s.Proxy)
		}()
	})
	cancel()
	return err
}

// tell has the others reach this member through its proxy, and then says who leads.
func tell(ctx context.Context, m *embedded.Member, url string) {
	said := ""
	for tick := time.Tick(20 * time.Millisecond); ctx.Err() == nil; <-tick {
		st, err := m.Status()
		if err != nil {
			return
		}
		if said == "" {
			if readdress(ctx, m, st.Member, url) != nil {
				continue // until there is a leader
			}
			fmt.Println("ready")
		}
		now := "follows"
		if st.Leader == st.Member {
			now = "leads"
		}
		if now != said {
			fmt.Println(now)
		}
		said = now
	}
}

func readdress(ctx context.Context, m *embedded.Member, id, url string) error {
	peers, err := m.Peers()
	if err != nil {
		return err
	}
	for _, p := range peers {
		if p.ID == id && p.URL == url {
			return nil
		}
	}
	return m.Readdress(ctx, id, url)
}
