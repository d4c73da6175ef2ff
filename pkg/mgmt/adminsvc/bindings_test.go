package adminsvc_test

import (
	"maps"
	"testing"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/mgmt/adminsvc"
	"github.com/meshctl/meshctl/pkg/mgmt/bots"
)

type registrar struct{ desc *grpc.ServiceDesc }

func (r *registrar) RegisterService(d *grpc.ServiceDesc, _ any) { r.desc = d }

// TestEveryMethodHasOneHandler: those of the bot are in a package of their own,
// which needs this one.
func TestEveryMethodHasOneHandler(t *testing.T) {
	var r registrar
	admin.Serve(&r, append((&adminsvc.Service{}).Bindings(), (&bots.Service{}).Bindings()...))
	got := map[string]int{}
	for _, m := range r.desc.Methods {
		got["/"+admin.Service+"/"+m.MethodName]++
	}
	want := maps.Clone(admin.BotTable())
	for name := range admin.Table() {
		want[name] = admin.BotRule{}
	}
	for name := range want {
		if got[name] != 1 {
			t.Errorf("method %s has %d handlers, want 1", name, got[name])
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("method %s is in no table", name)
	}
}
