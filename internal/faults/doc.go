// Package faults breaks a real mesh on purpose and counts what its clients notice.
//
// The tests stand behind the build tag faults, since they need root, iproute2 and
// nftables (`make e2e-faults`). They make a network of their own, a namespace for
// each host with a bridge between them as the Internet, and run the built binary
// in it as operators would: three management servers founded together, two
// entries and three cores that joined by token. The servers have a private network
// among them, on which a neighbour is that is none of them.
//
//	mgmt-a mgmt-b mgmt-c   entry-a entry-b   core-a core-b core-c
//	   └──────┴──────┴────────┴──────┴──── br0 ──┴──────┴──────┘
//	   │      │      │  client    origin    stranger   neighbour
//	   └──────┴──────┴───────────── br1 ───────────────────┘
//
// The mesh is formed once and shared; a test takes it by theLab, breaks something,
// and when it ends the lab mends everything and waits until the mesh is well.
package faults
