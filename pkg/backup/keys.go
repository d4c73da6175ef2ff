package backup

import (
	"encoding/json"
	"errors"
	"fmt"
)

// keysFile is what keys.age holds.
type keysFile struct {
	Data       [][]byte `json:"dataKeys"` // the first seals
	SealedRoot []byte   `json:"sealedRoot"`
}

func (k Keys) encode() ([]byte, error) {
	f := keysFile{SealedRoot: k.SealedRoot}
	for _, d := range k.Data {
		f.Data = append(f.Data, d[:])
	}
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	v, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	return toYAML(v), nil
}

// decode reads what encode wrote. An error shows nothing of the keys.
func (k *Keys) decode(data []byte) error {
	v, err := fromYAML(data)
	if err != nil {
		return errors.New("it is not as it was written")
	}
	var f keysFile
	if err := json.Unmarshal(appendObject(nil, v), &f); err != nil {
		return errors.New("it does not hold keys")
	}
	for i, d := range f.Data {
		if len(d) != 32 {
			return fmt.Errorf("data key %d has %d bytes", i+1, len(d))
		}
		k.Data = append(k.Data, [32]byte(d))
	}
	if len(k.Data) == 0 {
		return errors.New("it holds no data key")
	}
	k.SealedRoot = f.SealedRoot
	return nil
}
