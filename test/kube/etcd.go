package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// unaryWarning is from when on a request counts as slow. embed leaves it at
// zero, with which every request is logged.
const unaryWarning = 300 * time.Millisecond

// newEtcdCommand is a store of one member that knows its clients by certificate.
func newEtcdCommand() *cobra.Command {
	var dir, client, peer, cert, key, ca string
	cmd := &cobra.Command{
		Use:           "etcd",
		Short:         "The store of a Kubernetes API server, one member",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			cfg := embed.NewConfig()
			cfg.Dir = dir
			cfg.Logger, cfg.LogLevel = "zap", "warn"
			cfg.WarningUnaryRequestDuration = unaryWarning
			cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = cert, key
			cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = ca, true
			clientURL, clientErr := url.Parse(client)
			peerURL, peerErr := url.Parse(peer)
			if err := errors.Join(clientErr, peerErr); err != nil {
				return fmt.Errorf("etcd: %w", err)
			}
			cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
			cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
			cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
			return serveEtcd(cfg)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "data-dir", "", "where the data is kept")
	flags.StringVar(&client, "client", "https://127.0.0.1:2379", "URL for clients")
	flags.StringVar(&peer, "peer", "http://127.0.0.1:2380", "URL for peers")
	flags.StringVar(&cert, "cert", "", "certificate of the server, a file")
	flags.StringVar(&key, "key", "", "key of the certificate, a file")
	flags.StringVar(&ca, "ca", "", "who certifies the clients, a file")
	return cmd
}

func serveEtcd(cfg *embed.Config) error {
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("etcd: start: %w", err)
	}
	defer server.Close()
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	select {
	case <-stop.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("etcd: serve: %w", err)
	}
}
