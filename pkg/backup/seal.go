package backup

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// squeezeFrom is the size from which a plaintext is compressed before it is
// encrypted: audit segments and traffic totals, which are kept for ever. The
// objects with secrets are smaller, so that no size tells what is in one.
const squeezeFrom = 4 << 10

// seal encrypts to everybody in the audience.
func (a audience) seal(plain []byte) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(len(plain) + 400 + 150*len(a.keys))
	w, err := age.Encrypt(&out, a.keys...)
	if err != nil {
		return nil, err
	}
	if len(plain) >= squeezeFrom {
		err = squeeze(w, plain)
	} else {
		_, err = w.Write(plain)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func squeeze(w io.Writer, plain []byte) error {
	z := gzip.NewWriter(w)
	_, err := z.Write(plain)
	return errors.Join(err, z.Close())
}

// open decrypts what seal has encrypted, of bounded size.
func open(data []byte, ids []age.Identity) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(data), ids...)
	if err != nil {
		return nil, err
	}
	plain, err := bounded(r)
	if err != nil || !bytes.HasPrefix(plain, []byte{0x1f, 0x8b}) { // no text begins so
		return plain, err
	}
	z, err := gzip.NewReader(bytes.NewReader(plain))
	if err != nil {
		return nil, err
	}
	return bounded(z)
}

func bounded(r io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err == nil && len(out) > MaxFile {
		err = fmt.Errorf("more than %d bytes inside", MaxFile)
	}
	return out, err
}
