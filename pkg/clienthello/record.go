package clienthello

const (
	recordHeader    = 5
	maxRecord       = 1 << 14
	typeHandshake   = 22
	messageHeader   = 4
	typeClientHello = 1
)

// scanner follows the record layer over a growing buffer. It keeps counters only, so each byte is
// looked at once however it arrives, and no record costs memory.
type scanner struct {
	pos     int // bytes of the buffer that were looked at
	header  [recordHeader]byte
	nheader int // bytes of the current record's header seen; 5 while in its content
	left    int // content bytes of the current record still to come
	records int

	msg  [messageHeader]byte
	nmsg int // bytes of the handshake message seen, its header included
}

// scan looks at the new bytes of raw and reports whether the ClientHello is complete.
func (s *scanner) scan(raw []byte) (bool, error) {
	for s.pos < len(raw) {
		if s.left == 0 {
			s.header[s.nheader] = raw[s.pos]
			s.nheader++
			s.pos++
			if err := s.checkHeader(); err != nil {
				return false, err
			}
			continue
		}
		if err := s.content(raw[s.pos:]); err != nil {
			return false, err
		}
		if s.complete() {
			return true, nil
		}
	}
	return false, nil
}

// checkHeader judges the record header as far as it has been seen.
func (s *scanner) checkHeader() error {
	reason := NotTLS
	if s.records > 0 {
		reason = BadHello
	}
	h := s.header
	switch s.nheader {
	case 1:
		if h[0] != typeHandshake {
			return refuse(reason, "record type %d", h[0])
		}
	case 2:
		if h[1] != 3 {
			return refuse(reason, "record version %d", h[1])
		}
	case 3:
		if h[2] > 4 {
			return refuse(reason, "record version 3.%d", h[2])
		}
	case recordHeader:
		n := int(h[3])<<8 | int(h[4])
		if n == 0 || n > maxRecord {
			return refuse(BadHello, "record of %d bytes", n)
		}
		s.left, s.nheader = n, 0
		s.records++
	}
	return nil
}

// content takes the part of b that belongs to the current record and to the message.
func (s *scanner) content(b []byte) error {
	b = b[:min(len(b), s.left)]
	if s.nmsg < messageHeader {
		b = b[:min(len(b), messageHeader-s.nmsg)]
		copy(s.msg[s.nmsg:], b)
	}
	s.pos += len(b)
	s.left -= len(b)
	s.nmsg += len(b)
	if s.msg[0] != typeClientHello {
		return refuse(BadHello, "handshake message of type %d", s.msg[0])
	}
	if s.nmsg == messageHeader && s.length() > MaxMessage {
		return refuse(TooBig, "message of %d bytes", s.length())
	}
	return nil
}

func (s *scanner) length() int {
	return int(s.msg[1])<<16 | int(s.msg[2])<<8 | int(s.msg[3])
}

func (s *scanner) complete() bool {
	return s.nmsg >= messageHeader && s.nmsg-messageHeader >= s.length()
}

// message returns the body of the complete ClientHello in raw: a part of raw if it came in one
// record, else a copy.
func (s *scanner) message(raw []byte) []byte {
	end := messageHeader + s.length()
	if s.records == 1 {
		return raw[recordHeader+messageHeader : recordHeader+end]
	}
	msg := make([]byte, 0, end)
	for len(msg) < end {
		n := int(raw[3])<<8 | int(raw[4])
		raw = raw[recordHeader:]
		n = min(n, len(raw), end-len(msg))
		msg = append(msg, raw[:n]...)
		raw = raw[n:]
	}
	return msg[messageHeader:]
}
