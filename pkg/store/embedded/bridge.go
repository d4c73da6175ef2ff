package embedded

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap/zapcore"
)

// bridge writes etcd's log to ours. etcd's info is our debug: a quiet member
// says nothing.
type bridge struct {
	log   *slog.Logger
	attrs []slog.Attr
	// removed, when set, is called when etcd says that this member was removed.
	removed func()
}

// usual is what etcd logs as a warning or an error whenever it starts, with the
// settings it is given here, starts for the first time, or is closed in order.
var usual = [...]string{
	"Running http and grpc server on single port.", // nobody but this process is let in
	"simple token is not cryptographically signed", // users are told by certificate
	"cannot detect storage schema version: missing term information",
	"Failed to detect schema version missing term information",
	"mux: server closed",
	"http: Server closed",
	"use of closed network connection",
	"setting up serving from embedded etcd failed.",
}

// private says that a field holds a request: keys, and through them labels.
func private(a slog.Attr) bool {
	switch a.Key {
	case "request", "request content", "response", "content":
		return true
	}
	return false
}

func (b *bridge) Enabled(l zapcore.Level) bool {
	return b.log.Enabled(context.Background(), level(l))
}

func level(l zapcore.Level) slog.Level {
	switch {
	case l < zapcore.WarnLevel:
		return slog.LevelDebug
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	return &bridge{b.log, append(slices.Clip(b.attrs), attrs(fields)...), b.removed}
}

func (b *bridge) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return ce.AddCore(e, b)
	}
	return ce
}

func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	all := append(slices.Clip(b.attrs), attrs(fields)...)
	l := level(e.Level)
	if b.removed != nil && l > slog.LevelDebug && contains(e.Message, all, removedText) {
		b.removed()
	}
	if l > slog.LevelDebug {
		if isUsual(e.Message, all) {
			l = slog.LevelDebug
		} else {
			all = slices.DeleteFunc(all, private)
		}
	}
	b.log.LogAttrs(context.Background(), l, e.Message, append(all, slog.String("part", "etcd"))...)
	return nil
}

// Sync has nothing to do: slog writes at once.
func (b *bridge) Sync() error { return nil }

// removedText is how etcd names the reason; it has no error value for it.
const removedText = "permanently removed from the cluster"

func contains(msg string, all []slog.Attr, text string) bool {
	return strings.Contains(msg, text) || slices.ContainsFunc(all, func(a slog.Attr) bool {
		return a.Key == "error" && strings.Contains(a.Value.String(), text)
	})
}

func isUsual(msg string, all []slog.Attr) bool {
	var text strings.Builder
	text.WriteString(msg)
	for _, a := range all {
		if a.Key == "error" {
			text.WriteString(" " + a.Value.String())
		}
	}
	return slices.ContainsFunc(usual[:], func(s string) bool { return strings.Contains(text.String(), s) })
}

func attrs(fields []zapcore.Field) []slog.Attr {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	var out []slog.Attr
	for _, k := range slices.Sorted(maps.Keys(enc.Fields)) {
		out = append(out, slog.Any(k, enc.Fields[k]))
	}
	return out
}
