package bot

import (
	"context"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/qr"
)

// showLink says what making a link does, when there is one already, or makes it.
func showLink(ctx context.Context, s *Session, d admin.DeviceView) error {
	if s.SecretsAllowed() != nil {
		return s.Show(ctx, Screen{Text: s.T.HTML("device.link.off", "name", d.Name), Rows: [][]Button{deviceRow(s, d)}})
	}
	text := s.T.HTML("device.link.first", "name", d.Name)
	if !d.Linked.IsZero() {
		text = s.T.HTML("device.link.replace", "name", d.Name)
	}
	return s.Show(ctx, Screen{Text: text, Rows: [][]Button{
		Row(Button{Label: s.T.Plain("device.link.button"), Action: "qrnew", Args: []string{string(d.ID)}},
			button(s, "cancel", "dev", string(d.ID))),
	}})
}

func makeLink(ctx context.Context, s *Session, d admin.DeviceView) error {
	link, err := Call(ctx, s, admin.BotDeviceLink, admin.DeviceSubscribeRequest{Ref: string(d.ID), Replace: !d.Linked.IsZero()})
	if Done(err) {
		return s.Show(ctx, Screen{Text: s.T.HTML("device.link.lost"), Rows: [][]Button{deviceRow(s, d)}})
	}
	if err != nil {
		return err
	}
	return shareLink(ctx, s, d, "", link)
}

// showRotate says what replacing everything does.
func showRotate(ctx context.Context, s *Session, d admin.DeviceView) error {
	if s.SecretsAllowed() != nil {
		return s.Show(ctx, Screen{Text: s.T.HTML("device.rotate.off", "name", d.Name), Rows: [][]Button{deviceRow(s, d)}})
	}
	return s.Show(ctx, Screen{Text: s.T.HTML("device.rotate.confirm", "name", d.Name), Rows: [][]Button{
		Row(Button{Label: s.T.Plain("device.rotate.button"), Action: "rotate", Args: []string{string(d.ID)}},
			button(s, "cancel", "dev", string(d.ID))),
	}})
}

func rotate(ctx context.Context, s *Session, d admin.DeviceView) error {
	link, err := Call(ctx, s, admin.BotDeviceRotate, admin.Ref{Ref: string(d.ID)})
	if Done(err) {
		return s.Show(ctx, Screen{Text: s.T.HTML("device.rotate.lost"), Rows: [][]Button{deviceRow(s, d)}})
	}
	if err != nil {
		return err
	}
	return shareLink(ctx, s, d, s.T.HTML("device.rotate.done", "name", d.Name), link)
}

func deviceRow(s *Session, d admin.DeviceView) []Button {
	return Row(button(s, "back", "dev", string(d.ID)))
}

// shareLink shows a link, this once: the server does not know it any more. The
// screen that asked for it says that it was made.
func shareLink(ctx context.Context, s *Session, d admin.DeviceView, done string, link admin.SubscriptionLink) error {
	if done == "" {
		done = s.T.HTML("device.link.done", "name", d.Name)
	}
	if len(link.Warnings) > 0 {
		// What they say is for operators.
		done += "\n\n" + s.T.HTML("device.link.not-yet")
	}
	if err := s.Show(ctx, Screen{Text: done, Rows: [][]Button{deviceRow(s, d)}}); err != nil {
		return err
	}
	screen := Screen{Text: s.T.HTML("device.link.text", "name", d.Name, "url", link.URL)}
	if png, err := picture(link.URL); err == nil {
		if _, err := s.Photo(ctx, png, screen); err == nil {
			return nil
		}
	}
	// The link matters more than its picture, which may be what does not go through.
	_, err := s.Secret(ctx, screen)
	return err
}

// picture is a text as a QR code, in PNG.
func picture(text string) ([]byte, error) {
	code, err := qr.New(text)
	if err != nil {
		return nil, err
	}
	const pixels = 8 // to a module
	return code.PNG(pixels)
}
