package bot

import (
	"sync"
)

const (
	// hands is how many chats are attended to at the same time.
	hands = 32
	// maxQueue is how much of one chat may wait.
	maxQueue = 20
)

// crew does jobs: those of one chat one after the other, in the order in which
// they came, those of different chats side by side.
type crew struct {
	slots chan struct{}
	wg    sync.WaitGroup

	mu     sync.Mutex // guards queues
	queues map[int64][]func()
}

func newCrew() *crew {
	return &crew{slots: make(chan struct{}, hands), queues: map[int64][]func(){}}
}

// give has a job done; false when too many of the chat wait already.
func (c *crew) give(chat int64, job func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue, busy := c.queues[chat]
	if len(queue) >= maxQueue {
		return false
	}
	c.queues[chat] = append(queue, job)
	if !busy {
		c.wg.Go(func() { c.attend(chat) })
	}
	return true
}

// attend does what there is to do for a chat.
func (c *crew) attend(chat int64) {
	for job := c.next(chat); job != nil; job = c.next(chat) {
		c.slots <- struct{}{}
		job()
		<-c.slots
	}
}

// next takes the first job; nil when there is none, and nobody attends any more.
func (c *crew) next(chat int64) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.queues[chat]
	if len(queue) == 0 {
		delete(c.queues, chat)
		return nil
	}
	c.queues[chat] = queue[1:]
	return queue[0]
}

// wait returns when all jobs are done.
func (c *crew) wait() { c.wg.Wait() }
