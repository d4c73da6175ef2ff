package mesh

import "time"

// DialFault says in one word how an attempt to reach a core failed.
type DialFault string

// Dial faults.
const (
	FaultRefused     DialFault = "refused"     // nobody listens there, or a filter says so
	FaultUnreachable DialFault = "unreachable" // there is no way
	FaultTimeout     DialFault = "timeout"     // no answer
	FaultReset       DialFault = "reset"       // the connection was cut
	FaultIdentity    DialFault = "identity"    // another answers, or one that is not trusted
	FaultOther       DialFault = "other"
)

// ParseDialFault returns FaultOther for what it does not know: nodes of later
// versions may tell more apart.
func ParseDialFault(s string) DialFault {
	switch f := DialFault(s); f {
	case FaultRefused, FaultUnreachable, FaultTimeout, FaultReset, FaultIdentity:
		return f
	}
	return FaultOther
}

// EntryReach is how connections from one entry to the cores of each cell go: the
// judgement of the server that holds its stream, which is written when it changes.
// A cell whose cores nobody has asked for through the entry of late is not in it.
type EntryReach struct {
	Entry EntryID          `json:"entry"`
	Cells map[CellID]Reach `json:"cells,omitzero"`
}

// Reach is how connections from one entry to the cores of one cell go. They fail
// when none of the cores that were tried answers.
type Reach struct {
	Fails bool      `json:"fails"`
	Since time.Time `json:"since"`
	Fault DialFault `json:"fault,omitzero"` // the last one, when they fail
	Cores int       `json:"cores,omitzero"` // how many were tried
}

// ObjectCell begins how events name a cell.
const ObjectCell = "cell/"

// CellWatch says that clients do not get into a cell although its cores phone home.
// There is none for a cell where nothing is wrong.
type CellWatch struct {
	Cell  CellID    `json:"cell"`
	Since time.Time `json:"since"`
	// Entries and Traffic are the evidence: what entries report, and that there is
	// no traffic where there always was; at least one is not empty.
	Entries string `json:"entries,omitzero"`
	Traffic string `json:"traffic,omitzero"`
}

// Cause is the evidence of both kinds.
func (w CellWatch) Cause() string {
	switch {
	case w.Entries == "":
		return w.Traffic
	case w.Traffic == "":
		return w.Entries
	}
	return w.Entries + "; " + w.Traffic
}

// CellUsage is what the cores of a cell had moved in all at the beginning of each
// of the last hours: what is usual is seen by it.
type CellUsage struct {
	Cell  CellID               `json:"cell"`
	Hours map[Hour]UsageSample `json:"hours"`
}

// UsageSample is a sum of bytes, and when it was taken.
type UsageSample struct {
	Bytes int64     `json:"bytes"`
	At    time.Time `json:"at"`
}

// EntryRelayed is what an entry has relayed through each core, from and to clients.
// Its counts of one start only rise.
type EntryRelayed struct {
	Entry EntryID          `json:"entry"`
	Meter string           `json:"meter"`           // names the start of the entry
	Start int64            `json:"start"`           // orders them
	Now   map[CoreID]int64 `json:"now,omitzero"`    // bytes since that
	Past  map[CoreID]int64 `json:"before,omitzero"` // bytes of earlier starts
}

// MeterAudit compares what cores say that they moved with what entries say that
// they relayed through them.
type MeterAudit struct {
	At    time.Time            `json:"at"`
	Cores map[CoreID]MeterPair `json:"cores,omitzero"`
	// Gone is what entries have relayed that are no longer part of the mesh.
	Gone map[CoreID]int64 `json:"gone,omitzero"`
}

// MeterPair are both sums of one core, in bytes, as they were compared last.
type MeterPair struct {
	Metered int64 `json:"metered"`
	Relayed int64 `json:"relayed"`
}
