package mesh

import "strconv"

// AuditAnchor is a link of the chain over the audit records that somebody knows
// from elsewhere: a backup, a sheet of paper.
type AuditAnchor struct {
	Link string `json:"link"` // AuditSegment.ID
	Sum  string `json:"sum"`
}

// AuditReport is what a comparison of audit records with their chain found.
type AuditReport struct {
	Links int    `json:"links"`
	First string `json:"first,omitzero"` // number of the first link that is kept
	Last  string `json:"last,omitzero"`
	Sum   string `json:"sum,omitzero"` // of the last: the anchor of a later check
	// Records are covered by a link and compared with it. Trimmed is how many links
	// have theirs no more, which were the oldest; Open are records after the last
	// link, Earlier those before the first that is kept.
	Records int    `json:"records"`
	Trimmed int    `json:"trimmed,omitzero"`
	Open    int    `json:"open,omitzero"`
	Earlier int    `json:"earlier,omitzero"`
	From    string `json:"from,omitzero"`    // first record that was compared
	Through string `json:"through,omitzero"` // last one
	// Faults are at most fifty of Wrong.
	Faults []AuditFault `json:"faults,omitzero"`
	Wrong  int          `json:"wrong,omitzero"`
}

// AuditFault is something that is not as it was chained.
type AuditFault struct {
	Link    string `json:"link,omitzero"`   // AuditSegment.ID
	Record  string `json:"record,omitzero"` // id
	Problem string `json:"problem"`
}

func (f AuditFault) String() string {
	switch {
	case f.Record != "":
		return "record " + Quotable(f.Record) + ": " + f.Problem
	case f.Link != "":
		return "link " + LinkNumber(f.Link) + ": " + f.Problem
	}
	return f.Problem
}

// LinkNumber is the number of a link for people.
func LinkNumber(id string) string {
	n, err := strconv.ParseUint(id, 16, 64)
	if err != nil {
		return Quotable(id)
	}
	return strconv.FormatUint(n, 10)
}
