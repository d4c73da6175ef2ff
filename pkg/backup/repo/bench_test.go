package repo

import (
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/meshctl/meshctl/pkg/backup"
)

// benchFiles is how many files the benchmarks commit: 300 bytes each, half of
// them without any order, as ciphertexts are.
const benchFiles = 10_000

func benchFile(i, version int) backup.File {
	rnd := rand.New(rand.NewPCG(uint64(i), uint64(version)))
	b := make([]byte, 300)
	for k := range b {
		if b[k] = "abcdefgh: \n"[k%11]; i%2 == 0 {
			b[k] = byte(rnd.Uint32())
		}
	}
	copy(b, fmt.Sprint(i, " ", version))
	return backup.File{Path: fmt.Sprintf("devices/%02x/%05d.yaml", i%64, i), Data: b}
}

func benchCommit(b *testing.B, r *Repo, n, version int) ID {
	b.Helper()
	files := make([]backup.File, 0, n)
	for i := range n {
		files = append(files, benchFile(i, version))
	}
	return put(b, r, "bench", files...)
}

// peak reports the most memory that this process ever had: run one benchmark
// alone to have its own.
func peak(b *testing.B) {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(u.Maxrss)/1024, "peak-MiB")
}

func BenchmarkCommitAll(b *testing.B) {
	for b.Loop() {
		benchCommit(b, open(b, Options{}), benchFiles, 0)
	}
	peak(b)
}

func BenchmarkCommitAllGit(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		work := b.TempDir()
		git(b, work, "init", "-q")
		writeWork(b, work, 0)
		b.StartTimer()
		gitRun(b, work, "add", "-A")
		gitRun(b, work, "commit", "-q", "-m", "x")
	}
}

func writeWork(b *testing.B, work string, version int) {
	b.Helper()
	for i := range benchFiles {
		f := benchFile(i, version)
		set(b, filepath.Join(work, f.Path), string(f.Data))
	}
}

// gitRun runs git with the remotes' credentials at hand.
func gitRun(b *testing.B, dir string, args ...string) {
	b.Helper()
	// The server of these tests takes no body of unknown size, and housekeeping
	// that goes on in the background is not ours.
	args = append([]string{"-c", "http.postBuffer=100000000", "-c", "gc.auto=0"}, args...)
	cmd := exec.CommandContext(b.Context(), need(b, "git", "git"), args...)
	cmd.Dir = dir
	cmd.Env = append(safeEnv(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.net", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.net", "GIT_SSL_NO_VERIFY=1", "GIT_SSH_COMMAND="+os.Getenv("BENCH_SSH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// benchRemotes runs f for each transport, with a function that makes a new empty remote.
func benchRemotes(b *testing.B, f func(b *testing.B, fresh func() Remote)) {
	b.Run("path", func(b *testing.B) { f(b, func() Remote { return local(bare(b)) }) })
	b.Run("ssh", func(b *testing.B) {
		s := startSSH(b)
		f(b, func() Remote { return s.remote(b, bare(b)) })
	})
	b.Run("https", func(b *testing.B) {
		root := b.TempDir()
		s := startHTTP(b, root)
		n := 0
		f(b, func() Remote {
			n++
			dir := filepath.Join(root, fmt.Sprint(n, ".git"))
			git(b, "", "init", "-q", "--bare", "-b", "main", dir)
			return s.remote(dir)
		})
	})
}

func BenchmarkPushAll(b *testing.B) {
	benchRemotes(b, func(b *testing.B, fresh func() Remote) {
		r := open(b, Options{})
		benchCommit(b, r, benchFiles, 0)
		for b.Loop() {
			push(b, r, fresh())
		}
		peak(b)
	})
}

// BenchmarkChangeOne is a commit of one of the files, and its push.
func BenchmarkChangeOne(b *testing.B) {
	benchRemotes(b, func(b *testing.B, fresh func() Remote) {
		r, rm := open(b, Options{}), fresh()
		benchCommit(b, r, benchFiles, 0)
		push(b, r, rm)
		n := 0
		for b.Loop() {
			n++
			put(b, r, "one", benchFile(n%benchFiles, n))
			push(b, r, rm)
		}
		peak(b)
	})
}

func BenchmarkClone(b *testing.B) {
	benchRemotes(b, func(b *testing.B, fresh func() Remote) {
		r, rm := open(b, Options{}), fresh()
		benchCommit(b, r, benchFiles, 0)
		push(b, r, rm)
		for b.Loop() {
			c, err := Clone(b.Context(), rm, "", 0, Options{})
			must(b, err)
			must(b, c.Close())
		}
		peak(b)
	})
}

// BenchmarkOpen looks whether the clone is whole, as each round does.
func BenchmarkOpen(b *testing.B) {
	r := open(b, Options{})
	benchCommit(b, r, benchFiles, 0)
	must(b, r.Close())
	for b.Loop() {
		again, err := Open(b.Context(), r.dir, Options{})
		must(b, err)
		must(b, again.Close())
	}
}

// BenchmarkPushAllGit and those below do the same with the git program.
func BenchmarkPushAllGit(b *testing.B) {
	gitRemotes(b, func(b *testing.B, work string, fresh func() string) func() {
		return func() { gitRun(b, work, "push", "-q", fresh(), "HEAD:refs/heads/main") }
	})
}

func BenchmarkChangeOneGit(b *testing.B) {
	gitRemotes(b, func(b *testing.B, work string, fresh func() string) func() {
		to, n := fresh(), 0
		gitRun(b, work, "push", "-q", to, "HEAD:refs/heads/main")
		return func() {
			n++
			f := benchFile(n%benchFiles, n)
			set(b, filepath.Join(work, f.Path), string(f.Data))
			gitRun(b, work, "add", "-A")
			gitRun(b, work, "commit", "-q", "-m", "x")
			gitRun(b, work, "push", "-q", to, "HEAD:refs/heads/main")
		}
	})
}

func BenchmarkCloneGit(b *testing.B) {
	gitRemotes(b, func(b *testing.B, work string, fresh func() string) func() {
		to := fresh()
		gitRun(b, work, "push", "-q", to, "HEAD:refs/heads/main")
		return func() {
			dir := b.TempDir()
			gitRun(b, dir, "clone", "-q", "--bare", "--no-local", to, dir+"/x")
		}
	})
}

// BenchmarkPushGoGit is go-git's own push of all, then of one change, over https.
func BenchmarkPushGoGit(b *testing.B) {
	root := b.TempDir()
	s := startHTTP(b, root)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	pushIt := func(b *testing.B, r *Repo, to string) {
		b.Helper()
		rm := gogit.NewRemote(r.store, &config.RemoteConfig{Name: "x", URLs: []string{s.URL + to}})
		must(b, rm.PushContext(b.Context(), &gogit.PushOptions{RemoteName: "x", RefSpecs: []config.RefSpec{"refs/heads/main:refs/heads/main"},
			Auth: &http.BasicAuth{Username: "git", Password: s.token.Reveal()}, CABundle: ca}))
	}
	n := 0
	fresh := func(b *testing.B) string {
		b.Helper()
		n++
		git(b, "", "init", "-q", "--bare", "-b", "main", filepath.Join(root, fmt.Sprint(n, ".git")))
		return fmt.Sprint("/", n, ".git")
	}
	r := open(b, Options{})
	benchCommit(b, r, benchFiles, 0)
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			pushIt(b, r, fresh(b))
		}
		peak(b)
	})
	b.Run("one", func(b *testing.B) {
		to := fresh(b)
		pushIt(b, r, to)
		k := 0
		for b.Loop() {
			k++
			put(b, r, "one", benchFile(k%benchFiles, k))
			pushIt(b, r, to)
		}
		peak(b)
	})
}

// gitRemotes runs what f makes over a path, SSH and https.
func gitRemotes(b *testing.B, f func(b *testing.B, work string, fresh func() string) func()) {
	run := func(b *testing.B, fresh func() string) {
		work := b.TempDir()
		git(b, work, "init", "-q")
		writeWork(b, work, 0)
		git(b, work, "add", "-A")
		git(b, work, "commit", "-q", "-m", "x")
		op := f(b, work, fresh)
		for b.Loop() {
			op()
		}
	}
	b.Run("path", func(b *testing.B) { run(b, func() string { return bare(b) }) })
	b.Run("ssh", func(b *testing.B) {
		s, dir := startSSH(b), b.TempDir()
		write(b, dir+"/key", []byte(s.key.Reveal()))
		write(b, dir+"/known", []byte(s.known+"\n"))
		b.Setenv("BENCH_SSH", "ssh -F none -i "+dir+"/key -o UserKnownHostsFile="+dir+"/known")
		run(b, func() string { return s.remote(b, bare(b)).URL })
	})
	b.Run("https", func(b *testing.B) {
		root := b.TempDir()
		s := startHTTP(b, root)
		n := 0
		run(b, func() string {
			n++
			git(b, "", "init", "-q", "--bare", "-b", "main", filepath.Join(root, fmt.Sprint("g", n, ".git")))
			return strings.Replace(s.URL, "https://", "https://git:"+s.token.Reveal()+"@", 1) + fmt.Sprint("/g", n, ".git")
		})
	})
}

// BenchmarkGrowth makes commits of one object each, in the shape of
// a backup of 10,000 devices: the object's two files, its part of the index, a
// piece of the audit, and a manifest with its signature. It reports what a
// thousand of them add to the clone, and to a remote.
func BenchmarkGrowth(b *testing.B) {
	const commits = 300
	grown := func(b *testing.B, what string, bytes int64) { b.ReportMetric(float64(bytes)/1024*1000/commits, what) }
	for b.Loop() {
		r, dir := open(b, Options{}), bare(b)
		idx := make([][]string, 64)
		var all []backup.File
		rnd := rand.NewChaCha8([32]byte{1})
		top := make([]string, 64)
		for s := range top {
			top[s] = fmt.Sprintf("%02x: %x\n", s, noise(rnd, 32))
		}
		for i := range benchFiles {
			all = append(all, device(rnd, idx, i)...)
		}
		for s := range idx {
			all = append(all, file(fmt.Sprintf("index/devices/%02x.yaml", s), strings.Join(idx[s], "")))
		}
		put(b, r, "all", all...)
		push(b, r, local(dir))
		must(b, r.Pack(b.Context()))
		here, there := size(b, r.dir), size(b, dir)
		for n := range commits {
			i := int(rnd.Uint64() % benchFiles)
			files := device(rnd, idx, i)
			top[i%64] = fmt.Sprintf("%02x: %x\n", i%64, noise(rnd, 32))
			files = append(files, file(fmt.Sprintf("index/devices/%02x.yaml", i%64), strings.Join(idx[i%64], "")),
				file("index/devices.yaml", strings.Join(top, "")), file("manifest.yaml", fmt.Sprint(n, " ", noise(rnd, 64))),
				file("manifest.sig", noise(rnd, 100)), file(fmt.Sprintf("audit/2026-01-%02d/%06d.age", 1+n/100, n), noise(rnd, 600)))
			put(b, r, "one", files...)
			push(b, r, local(dir))
		}
		grown(b, "here-KiB/1000", size(b, r.dir)-here)
		must(b, r.Pack(b.Context()))
		grown(b, "here-packed-KiB/1000", size(b, r.dir)-here)
		grown(b, "remote-KiB/1000", size(b, dir)-there)
		git(b, dir, "gc", "-q")
		grown(b, "remote-gc-KiB/1000", size(b, dir)-there)
		peak(b)
		c, err := Clone(b.Context(), local(dir), "", 0, Options{})
		must(b, err)
		must(b, c.Close())
	}
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	b.ReportMetric(float64(u.Maxrss)/1024, "clone-peak-MiB")
}

// device is the two files of a device; its line in the index is changed.
func device(rnd *rand.ChaCha8, idx [][]string, i int) []backup.File {
	for len(idx[i%64]) <= i/64 {
		idx[i%64] = append(idx[i%64], "")
	}
	idx[i%64][i/64] = fmt.Sprintf("dev%05d:\n  open: %x\n  closed: %x\n  plain: %x\n", i, noise(rnd, 32), noise(rnd, 32), noise(rnd, 32))
	path := fmt.Sprintf("devices/%02x/dev%05d", i%64, i)
	return []backup.File{file(path+".yaml", fmt.Sprintf("id: dev%05d\nstate: active\nlimit: %d\n", i, rnd.Uint64()%100)), file(path+".age", noise(rnd, 500))}
}

func noise(rnd *rand.ChaCha8, n int) string {
	b := make([]byte, n)
	_, _ = rnd.Read(b) // never fails
	return string(b)
}

// size is what a folder takes on a disk of blocks of 4 KiB.
func size(b *testing.B, dir string) int64 {
	b.Helper()
	var n int64
	must(b, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err == nil {
			n += (st.Size() + 4095) / 4096 * 4096
		}
		return err
	}))
	return n
}
