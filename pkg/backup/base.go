package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// baseline is what a draft knows of the commit it builds on.
type baseline struct {
	m       *Manifest
	folders map[string]folderIndex
	shards  map[string]map[string]shard // by folder
	audit   *auditIndex
	auditAs []byte // as it is in the file
}

func noBase() *baseline {
	return &baseline{m: new(Manifest), folders: make(map[string]folderIndex), shards: make(map[string]map[string]shard)}
}

func (b *baseline) entry(folder, shard, id string) (entry, bool) {
	e, ok := b.shards[folder][shard][id]
	return e, ok
}

// load reads the base. Whoever hands it over may be wrong or a liar: an index
// that the base's own signed manifest does not vouch for is not built on, since
// it says which ciphertexts stay.
func (d *draft) load(ctx context.Context, tree Tree) error {
	d.base = noBase()
	why, err := d.base.read(ctx, tree, d)
	if err != nil {
		return err
	}
	if why != "" {
		d.base = noBase()
		d.sum.Full, d.sum.Reason = true, why
	}
	return nil
}

// read returns why there is nothing to build on, or "".
func (b *baseline) read(ctx context.Context, tree Tree, d *draft) (why string, err error) {
	if tree == nil {
		return "there was no backup", nil
	}
	manifest, err := tree.File(ctx, fileManifest)
	if errors.Is(err, mesh.ErrNotFound) {
		return "there was no backup", nil
	}
	if err != nil {
		return "", fmt.Errorf("backup: read the base: %w", err)
	}
	sig, err := tree.File(ctx, fileSignature)
	if err != nil && !errors.Is(err, mesh.ErrNotFound) {
		return "", fmt.Errorf("backup: read the base: %w", err)
	}
	m, _, err := VerifyManifest(manifest, sig, d.root)
	if _, ok := errors.AsType[*TooNewError](err); ok {
		return "", err
	}
	if err != nil {
		return "the one there was is not of this mesh: " + mesh.Plain(err), nil
	}
	if m.Mesh != d.s.Mesh {
		return "the one there was is of mesh " + string(m.Mesh), nil
	}
	b.m = m
	var f faults
	files := make(map[string][]byte)
	if err := tree.Each(ctx, dirIndex+"/", func(path string, data []byte) error {
		files[path] = data
		return nil
	}); err != nil {
		return "", fmt.Errorf("backup: read the base: %w", err)
	}
	b.index(files, &f)
	if f.Count > 0 {
		return "the index of the one there was is damaged: " + f.Faults[0].String(), nil
	}
	return "", nil
}

// index reads the files of the index, by path, and checks them from the manifest
// down. It reports what is missing, wrong or too much.
func (b *baseline) index(files map[string][]byte, f *faults) {
	seen := make(map[string]bool)
	take := func(path, sum string) []byte {
		seen[path] = true
		data, ok := files[path]
		switch {
		case !ok:
			f.add(path, "is missing")
		case digest(data) != sum:
			f.add(path, "is not the file that was signed")
		default:
			return data
		}
		return nil
	}
	for folder, d := range b.m.Folders {
		path := folderIndexPath(folder)
		data := take(path, d.Index)
		if data == nil {
			b.skip(files, seen, folder)
			continue
		}
		index, err := parseFolderIndex(data)
		if err != nil {
			f.add(path, "%v", err)
			b.skip(files, seen, folder)
			continue
		}
		b.folders[folder], b.shards[folder] = index, make(map[string]shard)
		for name, sum := range index {
			path := shardIndexPath(folder, name)
			data := take(path, sum)
			if data == nil {
				continue
			}
			s, err := parseShard(data)
			if err != nil {
				f.add(path, "%v", err)
				continue
			}
			b.shards[folder][name] = s
		}
	}
	if b.m.Audit.Index != "" {
		if data := take(fileAudit, b.m.Audit.Index); data != nil {
			a, err := parseAuditIndex(data)
			if err != nil {
				f.add(fileAudit, "%v", err)
			}
			b.audit, b.auditAs = a, data
		}
	}
	for path := range files {
		if !seen[path] {
			f.add(path, "is not in the index")
		}
	}
}

// skip leaves out the shards of a folder of which the index cannot be read: one
// fault is enough.
func (b *baseline) skip(files map[string][]byte, seen map[string]bool, folder string) {
	for path := range files {
		if strings.HasPrefix(path, dirIndex+"/"+folder+"/") {
			seen[path] = true
		}
	}
}
