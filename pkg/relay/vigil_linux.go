package relay

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// gone asks the kernel whether the peer has owed an acknowledgement for too long. A connection that
// cannot be asked has ended, and ends by itself.
func gone(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var info *unix.TCPInfo
	var infoErr error
	err = raw.Control(func(fd uintptr) {
		info, infoErr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	return err == nil && infoErr == nil && owes(info)
}

// owes tells a peer that is gone from one that is slow. A slow one closes its window: then nothing is
// unacknowledged, and it answers each probe of the window, which sets their count to 0.
func owes(i *unix.TCPInfo) bool {
	since := time.Duration(i.Last_ack_recv) * time.Millisecond
	return since > silence && (i.Unacked > 0 && i.Retransmits > 0 || i.Probes >= probes)
}
