package subscription

import (
	"slices"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Notices are shown by apps as the name of a node that leads nowhere, in both
// languages, since a document does not know who reads it.
const (
	noticeSuspended = "⛔ Suspended · Приостановлено"
	noticeExpired   = "⛔ Expired · Срок истёк"
	noticeExhausted = "⛔ Traffic used up · Трафик исчерпан"
	noticeGone      = "⛔ No longer served · Доступ закрыт"
	noticeNone      = "⚠ No server for this app · Нет серверов для этого приложения"
	noticeGuest     = "ⓘ Other servers meanwhile: your own cannot be used · Временно другие серверы: ваши недоступны"
	noticePrivate   = "⚠ More servers in sing-box or Clash · Больше серверов в sing-box или Clash"
)

// notice is what the client is to be told instead of nodes, or beside them: ""
// when there is nothing to tell.
func notice(p Profile, in []Node, left []Left) string {
	switch p.Standing {
	case mesh.StandingSuspended:
		return noticeSuspended
	case mesh.StandingExpired:
		return noticeExpired
	case mesh.StandingExhausted:
		return noticeExhausted
	case mesh.StandingOK:
	default:
		return noticeGone
	}
	switch {
	case slices.ContainsFunc(left, func(l Left) bool { return l.Reason == leftCA }):
		return noticePrivate
	case len(in) == 0:
		return noticeNone
	}
	return ""
}

// A notice points here: nothing listens, and a client notices at once.
const (
	nowhereHost = "127.0.0.1"
	nowherePort = 1
	nowhereUser = "00000000-0000-0000-0000-000000000000"
)
