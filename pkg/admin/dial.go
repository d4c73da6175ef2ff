package admin

import (
	"fmt"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// DialSocket returns a connection to the root-only unix socket of a management
// server on this machine. The socket's own permissions and the kernel's word on
// who calls take the place of TLS. Nothing is dialled until the first call.
func DialSocket(path string) (*grpc.ClientConn, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("admin: dial socket %s: %w", path, err)
	}
	cc, err := grpc.NewClient("unix:"+abs, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("admin: dial socket %s: %w", path, err)
	}
	return cc, nil
}
