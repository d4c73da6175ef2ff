package gateway

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// MaxTxnReads is how many keys one transaction may read.
const MaxTxnReads = 64

func denied(what string) error {
	return status.Error(codes.PermissionDenied, "gateway: "+what+" is not allowed here")
}

// checkRange returns the request to forward. It is built anew from what is
// allowed and must equal what came, so that an option etcd invents later is
// refused until somebody has thought about it.
func checkRange(r *pb.RangeRequest) (*pb.RangeRequest, error) {
	if !readable(r.GetKey()) {
		return nil, denied("this key")
	}
	allowed := &pb.RangeRequest{Key: r.Key, Serializable: r.Serializable}
	if !proto.Equal(allowed, r) {
		return nil, denied("a range, a past revision or an option")
	}
	return allowed, nil
}

// checkTxn returns the transaction to forward: reads of single keys, without
// conditions and without a transaction inside. serializable says that every
// read is.
func checkTxn(t *pb.TxnRequest) (txn *pb.TxnRequest, serializable bool, err error) {
	if n := len(t.GetSuccess()); n == 0 || n > MaxTxnReads {
		return nil, false, denied("a transaction of that size")
	}
	if len(t.Compare) > 0 || len(t.Failure) > 0 {
		return nil, false, denied("a condition")
	}
	txn, serializable = &pb.TxnRequest{}, true
	for _, op := range t.Success {
		read, ok := op.GetRequest().(*pb.RequestOp_RequestRange)
		if !ok {
			return nil, false, denied("an operation that is no read")
		}
		r, err := checkRange(read.RequestRange)
		if err != nil {
			return nil, false, err
		}
		serializable = serializable && r.Serializable
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}})
	}
	if !proto.Equal(txn, t) {
		return nil, false, denied("an option")
	}
	return txn, serializable, nil
}

// checkWatch returns the creation to forward: one key, events without the value
// before them. Ids are given by etcd.
func checkWatch(c *pb.WatchCreateRequest) (*pb.WatchCreateRequest, error) {
	if !readable(c.GetKey()) {
		return nil, denied("this key")
	}
	allowed := &pb.WatchCreateRequest{
		Key:            c.Key,
		StartRevision:  c.StartRevision,
		ProgressNotify: c.ProgressNotify,
		Fragment:       c.Fragment,
	}
	if !proto.Equal(allowed, c) {
		return nil, denied("a range, a filter or an option")
	}
	return allowed, nil
}
