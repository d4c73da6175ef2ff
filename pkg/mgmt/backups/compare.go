package backups

import (
	"fmt"
	"strings"

	"github.com/meshctl/meshctl/pkg/backup"
	"github.com/meshctl/meshctl/pkg/store"
)

// maxNamed bounds how many objects a problem names.
const maxNamed = 5

// compare says where the restored objects are not those that the store had, or
// "". What was written to the store after the backup was made cannot be told by
// it: at is the moment of the backup when have is of a later one, and 0 when it
// is of the same.
func compare(have, restored []store.Raw, at store.Rev) (problem string, equal int) {
	var wrong []string
	got := make(map[string][]byte, len(restored))
	for _, o := range restored {
		got[o.Folder+"/"+o.ID] = o.Value
	}
	for _, o := range have {
		name := o.Folder + "/" + o.ID
		value, ok := got[name]
		delete(got, name)
		switch {
		case at != 0 && o.Rev > at:
		case o.Folder == store.FolderTotals: // the backup has those of an earlier moment, see thin
		case !ok:
			wrong = append(wrong, name+" is missing")
		case !backup.Equal(o.Value, value):
			wrong = append(wrong, name+" is another")
		default:
			equal++
		}
	}
	if at == 0 {
		for name := range got {
			wrong = append(wrong, name+" was not there")
		}
	}
	if len(wrong) == 0 {
		return "", equal
	}
	more := ""
	if n := len(wrong) - maxNamed; n > 0 {
		wrong, more = wrong[:maxNamed], fmt.Sprintf(", and %d more", n)
	}
	return "the restored state is not the one that was backed up: " + strings.Join(wrong, ", ") + more, equal
}
