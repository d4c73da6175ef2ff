//go:build kube

package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// machineVariable names the file of a machine, in the environment of its first
// process.
const machineVariable = "MESHCTL_KUBE_MACHINE"

// machine is what the first process of a worker's namespaces needs to know: this
// test program, which plays the part of its operating system.
type machine struct {
	Name   string
	Dir    string // of this worker: folders and logs
	Group  string // its control group
	Images []string
	// Programs are started in this order and again whenever they end.
	Programs [][]string
}

const runtimeSocket = "/run/containerd/containerd.sock"

// boot makes the process the first of a machine. It ends only by SIGKILL, or
// when the machine cannot be set up.
func boot(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var m machine
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	if err := errors.Join(unix.Sethostname([]byte(m.Name)), m.mount(), makeGroups(m.Group)); err != nil {
		return err
	}
	return m.run()
}

// folders of a worker are its own, whatever else is on this machine.
var folders = []string{"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/etc/cni/net.d"}

// mount gives the machine its own view of processes, network and folders, and
// what else its pods mount to itself.
func (m *machine) mount() error {
	groups := filepath.Join(m.Dir, "groups")
	if err := os.MkdirAll(groups, 0o700); err != nil {
		return err
	}
	for _, step := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{groupRoot, groups, "", unix.MS_BIND | unix.MS_REC},
		{"sysfs", "/sys", "sysfs", 0},
		{groups, groupRoot, "", unix.MS_BIND | unix.MS_REC},
		{"tmpfs", "/run", "tmpfs", 0},
	} {
		if err := unix.Mount(step.source, step.target, step.kind, step.flags, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", step.source, step.target, err)
		}
	}
	for _, folder := range folders {
		own := filepath.Join(m.Dir, strings.ReplaceAll(folder[1:], "/", "-"))
		if err := errors.Join(os.MkdirAll(own, 0o755), os.MkdirAll(folder, 0o755)); err != nil {
			return err
		}
		if err := unix.Mount(own, folder, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", own, folder, err)
		}
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// run starts the programs, and waits for every process that ends in the machine.
func (m *machine) run() error {
	pids := map[int][]string{}
	for i, program := range m.Programs {
		pid, err := m.exec(program)
		if err != nil {
			return err
		}
		pids[pid] = program
		if i > 0 {
			continue
		}
		if err := m.importImages(); err != nil { // the first is containerd
			return err
		}
	}
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		program, ours := pids[pid]
		if !ours {
			continue
		}
		delete(pids, pid)
		<-time.After(time.Second)
		if pid, err = m.exec(program); err != nil {
			return err
		}
		pids[pid] = program
	}
}

func (m *machine) importImages() error {
	deadline := time.Now().Add(patience)
	for {
		c, err := net.Dial("unix", runtimeSocket)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			return err
		}
		<-time.After(50 * time.Millisecond)
	}
	for _, image := range m.Images {
		pid, err := m.exec(importCommand(image))
		if err != nil {
			return err
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status != 0 {
			return fmt.Errorf("import %s: status %v, %w", image, status, err)
		}
	}
	return nil
}

func importCommand(image string) []string {
	return []string{"/usr/bin/ctr", "--address", runtimeSocket, "--namespace", "k8s.io", "images", "import", image}
}

// exec starts a program with its own log, which bears the program's name.
func (m *machine) exec(program []string) (int, error) {
	name := filepath.Base(program[0])
	if name == "kube" {
		name = program[1]
	}
	log, err := os.OpenFile(filepath.Join(m.Dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, machineVariable) })
	pid, err := syscall.ForkExec(program[0], program, &syscall.ProcAttr{
		Env: env, Files: []uintptr{uintptr(unix.Stdin), log.Fd(), log.Fd()}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	return pid, nil
}
