package mgmt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// Inspect describes a server that does not answer from what its data folder
// holds, and changes nothing. What cannot be read is named in Problems.
func Inspect(dir string) (admin.ServerStatus, error) {
	if _, err := os.ReadDir(dir); err != nil {
		hint := "name the folder with --dir or --config; `meshctl mgmt serve` makes it"
		if errors.Is(err, fs.ErrPermission) {
			hint = "run it as root, or as the server's own user"
		}
		return admin.ServerStatus{}, mesh.WithHint(fmt.Errorf("mgmt: inspect data folder: %w", err), hint)
	}
	f := &folder{dir: dir}
	var s admin.ServerStatus
	problem := func(err error) {
		if err != nil {
			s.Problems = append(s.Problems, mesh.Plain(err))
		}
	}
	if x, err := f.formation(); err != nil || x != nil && x.Name != "" {
		problem(err)
		if err == nil {
			s.Name = x.Name
			problem(errors.New("this server is on its way into a mesh of several; its log says what it waits for"))
		}
	}
	if begun, err := f.has(fileServer); err != nil || !begun {
		problem(errors.Join(errors.New("no mesh has been founded in "+dir), err))
		return s, nil
	}
	k, err := f.load()
	if err != nil {
		problem(err)
		return s, nil
	}
	s.Server = k.Server
	s.Certificates = []admin.CertEnd{
		{What: "intermediate", Ends: k.intermediate.NotAfter},
		{What: "root", Ends: k.root.NotAfter},
		{What: "etcd CA", Ends: k.etcd.Cert().NotAfter},
	}
	founded, err := f.has(fileFounded)
	problem(err)
	if err == nil && !founded {
		problem(errors.New("founding was not finished"))
	}
	if _, err := os.Stat(filepath.Join(dir, dirEtcd)); errors.Is(err, fs.ErrNotExist) {
		problem(fmt.Errorf("etcd's data %s is missing", filepath.Join(dir, dirEtcd)))
	}
	return s, nil
}
