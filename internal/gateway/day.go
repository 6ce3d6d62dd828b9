package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// lockRetry is how long to leave a locked file alone.
const lockRetry = 2 * time.Millisecond

// Bounds of the day's book.
const (
	bookLockTime = 5 * time.Second
	bookKept     = 31 * 24 * time.Hour
	bookPoll     = 200 * time.Millisecond
	bookEnd      = ".jsonl"
)

// Day is the operator's budget of one calendar day, over all runs of a user on
// this machine. It is kept in a book, a file for each day to which every runner
// appends: what a request may cost before it is sent, and what it did cost when
// it has ended. A runner that dies leaves its reservations standing, so that
// nothing is ever forgotten. Safe for concurrent use, by processes too.
type Day struct {
	dir   string
	limit Amounts
	clock func() time.Time

	mu    sync.Mutex
	books map[string]*book
}

// bookLine is one line of a book: changes, which may be negative.
type bookLine struct {
	Spent    Amounts `json:"spent"`
	Reserved Amounts `json:"reserved"`
}

// book is one day's file.
type book struct {
	file   *os.File
	offset int64 // read so far
	sum    bookLine
}

// NewDay makes the day's budget. Its books lie in dir, which is made; clock nil
// is time.Now.
func NewDay(dir string, limit Amounts, clock func() time.Time) (*Day, error) {
	if clock == nil {
		clock = time.Now
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep the day's budget: %w", err)
	}
	d := &Day{dir: dir, limit: limit, clock: clock, books: map[string]*book{}}
	d.forget()
	_, err := d.Spent()
	return d, err
}

// forget removes the books of days long gone.
func (d *Day) forget() {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		day, err := time.ParseInLocation(time.DateOnly, strings.TrimSuffix(e.Name(), bookEnd), time.Local)
		if err == nil && strings.HasSuffix(e.Name(), bookEnd) && d.clock().Sub(day) > bookKept {
			_ = os.Remove(filepath.Join(d.dir, e.Name())) // another runner may have been faster
		}
	}
}

func (d *Day) today() string { return d.clock().Local().Format(time.DateOnly) }

// name names the budget for the person.
func (d *Day) name() string { return "the day (the operator's policy)" }

// Spent is what was spent today, by all runners.
func (d *Day) Spent() (Amounts, error) {
	var spent Amounts
	err := d.with(context.Background(), d.today(), func(b *book) error {
		spent = b.sum.Spent
		return nil
	})
	return spent, err
}

// reserve takes est from today, or says that nothing is left; the day it took
// it from is to be settled. Where only requests under way stand between it and
// the limit it waits for them, bound at most.
func (d *Day) reserve(ctx context.Context, est Amounts, bound time.Duration, waiting func(budget string)) (day string, err error) {
	began := time.Now()
	for {
		day = d.today()
		blocked := ""
		err := d.with(ctx, day, func(b *book) error {
			if over := b.sum.Spent.over(d.limit); over != "" {
				return &exhausted{d.name(), over}
			}
			if blocked = b.sum.Spent.plus(b.sum.Reserved).over(d.limit); blocked != "" {
				return nil
			}
			return b.write(bookLine{Spent: Amounts{Requests: est.Requests}, Reserved: Amounts{est.CostUSD, est.Tokens, 0, est.Turns}})
		})
		if err != nil || blocked == "" {
			return day, err
		}
		if time.Since(began) > bound {
			return day, &exhausted{d.name(), blocked + ", with what requests under way may cost"}
		}
		waiting(d.name())
		waiting = func(string) {}
		if err := pause(ctx, bookPoll); err != nil {
			return day, err
		}
	}
}

// settle turns a reservation into what was really spent.
func (d *Day) settle(day string, est, spent Amounts) error {
	est.Requests = 0 // counted when it was sent
	return d.with(context.Background(), day, func(b *book) error {
		return b.write(bookLine{Spent: spent, Reserved: Amounts{}.minus(est)})
	})
}

// with runs fn on a day's book, read to its end, while nobody else has it.
func (d *Day) with(ctx context.Context, day string, fn func(*book) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.books[day]
	if b == nil {
		f, err := os.OpenFile(filepath.Join(d.dir, day+bookEnd), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("open the book of the day's budget: %w", err)
		}
		b = &book{file: f}
		d.books[day] = b
	}
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.unlock()
	if err := b.read(); err != nil {
		return err
	}
	return fn(b)
}

// Close lets the books go.
func (d *Day) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for day, b := range d.books {
		errs = append(errs, b.file.Close())
		delete(d.books, day)
	}
	return errors.Join(errs...)
}

func (b *book) lock(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, bookLockTime)
	defer cancel()
	err := lockFile(bounded, b.file)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%s was locked by another process for %s: is a herd-runner stopped (SIGSTOP)?", b.file.Name(), bookLockTime)
	}
	return err
}

// lockFile waits for the file's lock, or gives the context's error.
func lockFile(ctx context.Context, f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if err := pause(ctx, lockRetry); err != nil {
			return err
		}
	}
}

func (b *book) unlock() { _ = syscall.Flock(int(b.file.Fd()), syscall.LOCK_UN) }

// read adds what others have written since. A line that a dying runner left
// unfinished is ended and passed over.
func (b *book) read() error {
	tail, err := io.ReadAll(io.NewSectionReader(b.file, b.offset, 1<<40))
	if err != nil {
		return fmt.Errorf("read the book of the day's budget: %w", err)
	}
	for {
		line, rest, whole := bytes.Cut(tail, []byte("\n"))
		if !whole {
			break
		}
		b.offset += int64(len(line)) + 1
		var l bookLine
		if json.Unmarshal(line, &l) == nil {
			b.add(l)
		}
		tail = rest
	}
	if len(tail) > 0 {
		return b.append([]byte("\n"), int64(len(tail)))
	}
	return nil
}

func (b *book) add(l bookLine) {
	b.sum.Spent = b.sum.Spent.plus(l.Spent)
	b.sum.Reserved = b.sum.Reserved.plus(l.Reserved)
}

func (b *book) write(l bookLine) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("write the book of the day's budget: %w", err)
	}
	if err := b.append(append(text, '\n'), 0); err != nil {
		return err
	}
	b.add(l)
	return nil
}

// append writes text behind what was read and skip bytes.
func (b *book) append(text []byte, skip int64) error {
	n, err := b.file.Write(text)
	if err != nil {
		return fmt.Errorf("write the book of the day's budget: %w", err)
	}
	b.offset += skip + int64(n)
	return nil
}

// pause waits, or gives the context's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
