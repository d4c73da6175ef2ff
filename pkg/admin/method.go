package admin

import (
	"context"

	"google.golang.org/grpc"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Service is the gRPC name of the Admin service.
const Service = "meshctl.v1.Admin"

// RenewHeader is metadata beside an answer: the caller's certificate, whose
// serial it holds, should be renewed soon, since its issuer was removed.
const RenewHeader = "meshctl-renew"

// Method is one unary method of the Admin service.
type Method[Req, Resp any] struct {
	Name string
	Need mesh.AdminRole // the least role that may call it
}

// FullName is the gRPC path.
func (m Method[Req, Resp]) FullName() string { return "/" + Service + "/" + m.Name }

// Call invokes the method. Errors carry a mesh kind and the server's hint.
func (m Method[Req, Resp]) Call(ctx context.Context, cc grpc.ClientConnInterface, req Req) (Resp, error) {
	var resp Resp
	err := cc.Invoke(ctx, m.FullName(), &req, &resp, grpc.CallContentSubtype(CodecName))
	return resp, FromStatus(err)
}

// Handle binds a handler to the method, for Serve.
func (m Method[Req, Resp]) Handle(h func(context.Context, Req) (Resp, error)) Binding {
	return Binding{
		Name: m.Name,
		Desc: grpc.MethodDesc{MethodName: m.Name, Handler: func(_ any, ctx context.Context, dec func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			var req Req
			if err := dec(&req); err != nil {
				return nil, err
			}
			call := func(ctx context.Context, req any) (any, error) {
				resp, err := h(ctx, *req.(*Req))
				if err != nil {
					return nil, ToStatus(err)
				}
				return &resp, nil
			}
			if intercept == nil {
				return call(ctx, &req)
			}
			return intercept(ctx, &req, &grpc.UnaryServerInfo{FullMethod: m.FullName()}, call)
		}},
	}
}

// Binding is a method with its handler.
type Binding struct {
	Name string
	Desc grpc.MethodDesc
}

// Serve registers the bindings as the Admin service.
func Serve(r grpc.ServiceRegistrar, bindings []Binding) {
	desc := &grpc.ServiceDesc{ServiceName: Service, HandlerType: (*any)(nil), Metadata: "pkg/admin"}
	for _, b := range bindings {
		desc.Methods = append(desc.Methods, b.Desc)
	}
	r.RegisterService(desc, nil)
}

// Caller is who calls, as the server's interceptor established it.
type Caller struct {
	Actor   mesh.Actor
	Role    mesh.AdminRole
	Request string // id of the request, for audit
	// Via is how the actor speaks when not with a certificate; "" otherwise.
	Via string
	// Bot is for whom the bot calls; nil: it is not the bot that does.
	Bot *BotPerson
}

type callerKey struct{}

// WithCaller returns a context that names the caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller, or a zero Caller whose role permits nothing.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
