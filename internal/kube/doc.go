// Package kube runs the entry layer on a real Kubernetes and counts what its
// clients notice.
//
// The tests stand behind the build tag kube, since they build Kubernetes (once,
// some twenty minutes) and need root, containerd and runc (`make e2e-kube`). They
// make a network of their own, a namespace for each host with a bridge between
// them. One host has etcd and the control plane; each worker is a whole machine
// of kubelet, containerd and kube-proxy with its own processes, mounts and pods;
// a balancer stands in for a cloud's: it gives Services of type LoadBalancer an
// address, asks the workers for the health of their pods, and forwards.
//
//	control   w1 w2 w3   mgmt-a mgmt-b mgmt-c   core
//	   └──────┴──┴──┴─────── br0 ──────┴─────────┘
//	       balancer    client    origin
//
// The cluster is made once and shared; a test takes it by theKube, and the tests
// of the entry layer take cluster and mesh by theMesh.
package kube
