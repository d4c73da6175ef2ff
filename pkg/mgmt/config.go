package mgmt

import (
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/meshctl/meshctl/pkg/ca"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Config is how one management server runs. The tags name the keys under which
// the command line fills it; DefaultConfig holds the defaults.
type Config struct {
	Dir  string `key:"dir" help:"data folder: keys, certificates and etcd; 0700"`
	Name string `key:"name" help:"name of this server, unique among the servers (default: the host's name)"`

	BootstrapExpect int      `key:"bootstrap-expect" help:"how many servers found the mesh together: 1 or 3"`
	Peers           []string `key:"peers" help:"the servers that found the mesh together: host or host:gossip-port of each, this one too"`

	MeshListen    string   `key:"listen" help:"mesh port: the one port that nodes and administrators need"`
	MeshAddresses []string `key:"addresses" help:"host:port under which others reach the mesh port; names are resolved at each dial (default: the listen address, when it names one host)"`
	AdminListen   string   `key:"admin-listen" help:"serve the Admin service here, on a private address, and not on the mesh port"`
	GatewayListen string   `key:"gateway-listen" help:"serve the route gateway here, on a private address, and not on the mesh port"`
	GossipListen  string   `key:"gossip-listen" help:"address and port (TCP and UDP) on which the servers tell each other who is there; a private address (default: the address of etcd.peer-listen, port 7946)"`
	SocketPath    string   `key:"socket" help:"unix socket for administration on this machine (default: DIR/mgmt.sock)"`
	MetricsListen string   `key:"metrics-listen" help:"health and metrics, on a private address; empty: none"`

	Etcd         Etcd         `key:"etcd"`
	Founding     Founding     `key:"founding"`
	Ping         Ping         `key:"ping"`
	Aux          Aux          `key:"aux"`
	Bot          Bot          `key:"bot"`
	Subscription Subscription `key:"subscription"`
	Rates        Rates        `key:"rates"`
}

// Etcd is how the etcd member in this process runs.
type Etcd struct {
	ClientListen string        `key:"client-listen" help:"etcd's client port; loopback only"`
	PeerListen   string        `key:"peer-listen" help:"etcd's peer port; a private address"`
	Quota        int64         `key:"quota" help:"bytes etcd's database may take before writes are refused"`
	Heartbeat    time.Duration `key:"heartbeat" help:"interval of the leader's heartbeats; 100ms across sites"`
	Election     time.Duration `key:"election" help:"silence after which a new leader is elected; 1s across sites"`
	CertLife     time.Duration `key:"cert-life" help:"life of the certificates that etcd's members know each other by; each server renews its own"`
}

// Ping is the dead-man ping: a watch elsewhere raises the alarm when it stays
// away. One server, the leader, does it, if it has it configured: so all should have.
type Ping struct {
	URLFile  string        `key:"url-file" help:"file with an http or https URL to request every so often while the mesh is well, so that a watch elsewhere notices when it is not; the URL is a secret"`
	Interval time.Duration `key:"interval" help:"how often to request it"`
}

// Bot is the Telegram bot. One server, the leader, has it, if it is configured
// there: so all should have it.
type Bot struct {
	TokenFile string   `key:"token-file" help:"file with the token of the Telegram bot, as BotFather gives it: that starts the bot; a secret"`
	APIs      []string `key:"api" help:"base URLs of the Bot API, in order of preference"`
	ProxyFile string   `key:"proxy-file" help:"file with the URL of a proxy through which the Bot API is reached: http, https or socks5; it may hold a password"`
}

// Aux is how the child process runs.
type Aux struct {
	Memory int64 `key:"memory" help:"bytes of memory that the child process of this server may take"`
}

// Subscription is this server's part of the subscription service.
type Subscription struct {
	CertFile string `key:"cert-file" help:"certificate chain that the subscription service shows, PEM, leaf first; read again when it changes (not needed when the certificate is ordered by ACME)"`
	KeyFile  string `key:"key-file" help:"key of subscription.cert-file, PEM"`
}

// Founding is what a new mesh is founded with. It is read at founding only;
// afterwards `meshctl admin config set` changes these.
type Founding struct {
	AllowedAddresses []string      `key:"allowed-addresses" help:"ranges beyond the public Internet in which cores may be reached, such as 10.0.0.0/8"`
	EntryAddresses   []string      `key:"entry-addresses" help:"host:port that clients dial: the balancer or the entries"`
	NodeCertLife     time.Duration `key:"node-cert-life" help:"life of the certificates of cores and entries"`
	AdminCertLife    time.Duration `key:"admin-cert-life" help:"life of the certificates of administrators"`
	MgmtCertLife     time.Duration `key:"mgmt-cert-life" help:"life of the certificates of management servers"`
	RenewGrace       time.Duration `key:"renew-grace" help:"how long an expired certificate may still renew"`
	StaleIfError     time.Duration `key:"stale-if-error" help:"how long entries may use their last answer when no management server answers"`
}

// Rates bound what a stranger can make the server do.
type Rates struct {
	Connections      int `key:"connections" help:"new connections per second from one address, on average"`
	ConnectionsBurst int `key:"connections-burst" help:"new connections from one address at once"`
	Handshakes       int `key:"handshakes" help:"TLS handshakes under way at once"`
	Open             int `key:"open" help:"connections open at once, all addresses together"`
	TokenFailures    int `key:"token-failures" help:"wrong join tokens per minute from one address before further attempts are refused"`
}

// DefaultConfig is what holds where nothing else is said.
func DefaultConfig() Config {
	def := mesh.DefaultConfig()
	return Config{
		Dir:             "/var/lib/meshctl/mgmt",
		BootstrapExpect: 1,
		MeshListen:      ":8443",
		MetricsListen:   "127.0.0.1:9601",
		Etcd: Etcd{
			ClientListen: "127.0.0.1:2379",
			PeerListen:   "127.0.0.1:2380",
			Quota:        2 << 30,
			Heartbeat:    50 * time.Millisecond,
			Election:     500 * time.Millisecond,
			CertLife:     ca.DefaultEtcdLife,
		},
		Founding: Founding{
			NodeCertLife:  time.Duration(def.CertLife.Node),
			AdminCertLife: time.Duration(def.CertLife.Admin),
			MgmtCertLife:  time.Duration(def.CertLife.Mgmt),
			RenewGrace:    time.Duration(def.RenewGrace),
			StaleIfError:  time.Duration(def.StaleIfError),
		},
		Bot:   Bot{APIs: []string{"https://api.telegram.org"}},
		Ping:  Ping{Interval: time.Minute},
		Aux:   Aux{Memory: 256 << 20},
		Rates: Rates{Connections: 20, ConnectionsBurst: 100, Handshakes: 512, Open: 8192, TokenFailures: 10},
	}
}

// Socket is the path of the unix socket.
func (c Config) Socket() string {
	if c.SocketPath != "" {
		return c.SocketPath
	}
	return filepath.Join(c.Dir, "mgmt.sock")
}

// gossipPort is where gossip is unless something else is said.
const gossipPort = "7946"

// gossipAddress is where this server gossips, host:port.
func (c Config) gossipAddress() string {
	if c.GossipListen != "" {
		return c.GossipListen
	}
	host, _, _ := net.SplitHostPort(c.Etcd.PeerListen) // Validate has looked at it
	return net.JoinHostPort(host, gossipPort)
}

// Gossip is where this server gossips, host:port.
func (c Config) Gossip() string { return c.gossipAddress() }

// peerURL is where the other servers reach this one's etcd.
func (c Config) peerURL() string { return "https://" + c.Etcd.PeerListen }

// gossipPeers adds the port where none is named.
func gossipPeers(peers []string) []string {
	out := make([]string, len(peers))
	for i, p := range peers {
		if _, _, err := net.SplitHostPort(p); err != nil {
			p = net.JoinHostPort(strings.Trim(p, "[]"), gossipPort)
		}
		out[i] = p
	}
	return out
}

// Advertised are the host:port that tokens and nodes learn for the mesh port.
func (c Config) Advertised() []string {
	if len(c.MeshAddresses) > 0 {
		return c.MeshAddresses
	}
	return []string{c.MeshListen}
}
