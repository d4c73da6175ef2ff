package audit

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// FolderChain is where a backup has the links.
const FolderChain = "auditchain"

// InBackup compares the audit records in a backup, which was read with them, with
// the chain in it. A backup keeps every record from its first on, so none may be
// missing after that.
func InBackup(st *backup.State, now time.Time) (Report, error) {
	var links []mesh.AuditSegment
	for _, o := range st.Objects { // in the order of their ids
		if o.Folder != FolderChain {
			continue
		}
		var l mesh.AuditSegment
		if err := json.Unmarshal(o.JSON, &l); err != nil || l.ID != o.ID {
			return Report{}, fmt.Errorf("audit: read link %s: %w: %w", mesh.Quotable(o.ID), err, mesh.ErrInvalid)
		}
		links = append(links, l)
	}
	c := NewChecker(links)
	for _, o := range st.Audit {
		c.Add(Record{ID: o.ID, JSON: o.JSON})
	}
	return c.End(nil, now), nil
}
