package mgmt

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/meshctl/meshctl/pkg/mesh"
)

func TestWhatIsWrongWithTheBotsFilesNamesTheKeyOnce(t *testing.T) {
	missing := fmt.Errorf("bot.token-file: x may be read by others: %w", mesh.ErrInvalid)
	for name, c := range map[string]struct {
		token mesh.Secret
		err   error
	}{
		"a file that cannot be used": {"", missing},
		"a token that is none":       {"hello world", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{BotToken: func(context.Context) (mesh.Secret, error) { return c.token, c.err }}
			_, err := s.bot(t.Context())
			if err == nil || strings.Count(err.Error(), "bot.token-file") != 1 || strings.Contains(err.Error(), "hello") {
				t.Errorf("got %v", err)
			}
		})
	}
}
