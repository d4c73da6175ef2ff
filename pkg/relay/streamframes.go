package relay

import "encoding/binary"

// opened takes an OPEN: the stream waits in Accept, or is refused at once.
func (r *reader) opened(f frame) error {
	p, err := r.payload(f.length)
	if err != nil {
		return err
	}
	header, badHeader := ParseHeader(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.client:
		return protocolErrorf("stream opened by the core")
	case f.stream <= r.lastID:
		return protocolErrorf("stream opened with a number used before")
	case r.overdueLocked():
		return protocolErrorf("peer opens streams and does not read the answers")
	}
	r.lastID = f.stream
	switch {
	case badHeader != nil:
		r.refuseLocked(f.stream, CodeBadHeader, false, badHeader.Error())
	case r.byeSent:
		r.refuseLocked(f.stream, CodeDraining, true, "")
	case len(r.all) >= r.cfg.MaxStreams:
		r.refuseLocked(f.stream, CodeLimit, true, "session is full")
	default:
		st := r.newStreamLocked()
		st.id = f.stream
		r.streams[st.id] = st
		r.incoming = append(r.incoming, &Incoming{st: st, header: header})
		notify(r.queued)
	}
	return nil
}

func (r *reader) accepted(f frame) error {
	st, err := r.unanswered(f)
	if st == nil || err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	st.acceptLocked()
	return nil
}

func (r *reader) refused(f frame) error {
	p, err := r.payload(f.length)
	if err != nil {
		return err
	}
	st, err := r.unanswered(f)
	if st == nil || err != nil {
		return err
	}
	r.endStream(st, &RefusedError{Code: Code(p[0]), Retryable: p[1] != 0, Text: printable(string(p[2:]))}, false)
	return nil
}

// unanswered returns the stream that an answer of the core is for, nil if the entry has given it up.
func (r *reader) unanswered(f frame) (*Stream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.streams[f.stream]
	if !r.client || st == nil && f.stream > r.lastID || st != nil && st.accepted {
		return nil, protocolErrorf("frame type %d where no answer is due", f.typ)
	}
	return st, nil
}

func (r *reader) credit(f frame, p []byte) error {
	st, err := r.stream(f)
	if st == nil || err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := binary.BigEndian.Uint32(p)
	if n > uint32(maxCredit-st.credit) {
		return protocolErrorf("credit of more than %d bytes", maxCredit)
	}
	st.credit += int(n)
	notify(st.sig)
	return nil
}

func (r *reader) fin(f frame) error {
	st, err := r.stream(f)
	if st == nil || err != nil {
		return err
	}
	if !st.recv.fin() {
		return protocolErrorf("fin twice")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	st.finHeard = true
	st.settleLocked()
	return nil
}

func (r *reader) reset(f frame, code Code) error {
	st, err := r.stream(f)
	if st == nil || err != nil {
		return err
	}
	r.endStream(st, &ResetError{code}, false)
	return nil
}

// evict cuts the stream that holds most, when all hold more than the session may.
func (s *Session) evict() {
	s.mu.Lock()
	var fullest *Stream
	var most int
	for st := range s.all {
		if n := st.recv.holds(); n > most {
			fullest, most = st, n
		}
	}
	s.mu.Unlock()
	if fullest != nil {
		s.evicted.Add(1)
		fullest.cut(CodeLimit)
	}
}
