package bot

import "github.com/meshctl/meshctl/pkg/mesh"

// noticeScreen is how a notice looks to whoever it is for: what it says, and what
// can be done about it at once.
func noticeScreen(s *Session, n mesh.Notice) Screen {
	screen := Screen{Text: noticeText(s.T, n)}
	switch n.Kind {
	case mesh.NoticeGuest:
		if s.Operator() {
			screen.Rows = guestRows(s, n.Params["user"], mesh.TelegramAsked)
		}
	case mesh.NoticeAlert:
		if s.Operator() && n.Alert != nil {
			screen.Rows = [][]Button{Row(s.button("look", actAlert, alertRef(n.Alert.ID)))}
		}
	case mesh.NoticeCoreLost, mesh.NoticeCoreBack, mesh.NoticeCoreNew, mesh.NoticeCoreCert:
		if s.Member() {
			screen.Rows = [][]Button{Row(button(s, "cores", "mycores"))}
		}
	case mesh.NoticeExpiring, mesh.NoticeSpent, mesh.NoticeCellMoved, mesh.NoticeApproved:
		if s.Member() {
			screen.Rows = [][]Button{Row(button(s, "devices", "own"))}
		}
	}
	return screen
}
