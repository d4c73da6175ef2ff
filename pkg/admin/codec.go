package admin

import (
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/encoding"
)

// CodecName is the content-subtype of Admin messages.
const CodecName = "json"

// Codec is JSON for gRPC, known to both sides by its name.
type Codec struct{}

var _ encoding.Codec = Codec{}

// Name is the content-subtype.
func (Codec) Name() string { return CodecName }

// Marshal encodes v.
func (Codec) Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("admin: encode %T: %w", v, err)
	}
	return b, nil
}

// Unmarshal decodes data into v. Members that v does not know are ignored, so
// that a newer peer may send more.
func (Codec) Unmarshal(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("admin: decode %T: %w", v, err)
	}
	return nil
}

func init() { encoding.RegisterCodec(Codec{}) }
