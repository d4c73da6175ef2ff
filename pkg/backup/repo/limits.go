package repo

import (
	"cmp"
	"time"
)

// Limits bound what a repository may make us hold or do. Zero fields have
// defaults.
type Limits struct {
	Pack    int64         // bytes of one transfer; default 2 GiB
	Objects int           // in one transfer; default 10,000,000
	Unpack  int64         // bytes of one transfer's objects, unpacked; default 64 GiB
	File    int           // bytes of one object; default 16 MiB
	Files   int           // files of one tree; default 500,000
	Tree    int64         // bytes of one tree's files that are read; default 4 GiB
	Depth   int           // folders above a file; default 16
	History int           // commits that Fetch gets into an empty clone; default 10,000
	Idle    time.Duration // without a byte from or to a remote; default 1 min
	Time    time.Duration // for one conversation with a remote; default 30 min
	Loose   int           // objects in files of their own before they are packed; default 4,000
	Packs   int           // before the smaller ones are merged; default 24
}

func (l Limits) withDefaults() Limits {
	l.Pack = cmp.Or(l.Pack, 2<<30)
	l.Objects = cmp.Or(l.Objects, 10_000_000)
	l.Unpack = cmp.Or(l.Unpack, 64<<30)
	l.File = cmp.Or(l.File, 16<<20)
	l.Files = cmp.Or(l.Files, 500_000)
	l.Tree = cmp.Or(l.Tree, 4<<30)
	l.Depth = cmp.Or(l.Depth, 16)
	l.History = cmp.Or(l.History, 10_000)
	l.Idle = cmp.Or(l.Idle, time.Minute)
	l.Time = cmp.Or(l.Time, 30*time.Minute)
	l.Loose = cmp.Or(l.Loose, 4_000)
	l.Packs = cmp.Or(l.Packs, 24)
	return l
}
