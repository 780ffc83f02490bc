// River: see bench/peers/program.py for what is asked of a driver.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const batch = 500

// noop is the job: its number and, if it is for the future, when it is due in milliseconds since 1970.
type noop struct {
	ID  int   `json:"id"`
	Due int64 `json:"due,omitempty"`
}

func (noop) Kind() string { return "noop" }

// buffer is what the handlers of this process have seen; River has no worker of its own for each job.
type buffer struct {
	river.WorkerDefaults[noop]

	mutex sync.Mutex
	first time.Time
	ids   []int
	late  []float64
}

func (b *buffer) Work(_ context.Context, job *river.Job[noop]) error {
	now := time.Now()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.first.IsZero() {
		b.first = now
	}
	b.ids = append(b.ids, job.Args.ID)
	if job.Args.Due != 0 {
		b.late = append(b.late, float64(now.UnixMicro())/1000-float64(job.Args.Due))
	}
	return nil
}

func (b *buffer) handled() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return len(b.ids)
}

func (b *buffer) write(path string) error {
	record := map[string]any{"ids": append([]int{}, b.ids...), "late_ms": append([]float64{}, b.late...)}
	if !b.first.IsZero() {
		record["first"] = float64(b.first.UnixMicro()) / 1e6
	}
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func settings() *river.Config {
	config := &river.Config{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		// The number has no default; this is what its documentation begins with.
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
	}
	if os.Getenv("PEER_SETTINGS") == "best" {
		// Those of its own `river bench`: https://riverqueue.com/docs/benchmarks
		config.FetchCooldown = 2 * time.Millisecond
		config.FetchPollInterval = 20 * time.Millisecond
		config.Queues[river.QueueDefault] = river.QueueConfig{MaxWorkers: 2000}
	}
	return config
}

func setup(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// add queues count jobs by COPY, from this id on, in batches of 500.
func add(ctx context.Context, client *river.Client[pgx.Tx], from, count int, firstDue, step int64) error {
	for at := 0; at < count; at += batch {
		params := make([]river.InsertManyParams, 0, batch)
		for number := at; number < min(at+batch, count); number++ {
			job := noop{ID: from + number}
			opts := &river.InsertOpts{}
			if firstDue != 0 {
				job.Due = firstDue + int64(number)*step
				opts.ScheduledAt = time.UnixMilli(job.Due)
			}
			params = append(params, river.InsertManyParams{Args: job, InsertOpts: opts})
		}
		if _, err := client.InsertManyFast(ctx, params); err != nil {
			return err
		}
	}
	return nil
}

func enqueue(ctx context.Context, pool *pgxpool.Pool, numbers []string) error {
	var values [4]int64
	for at, text := range numbers {
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		values[at] = value
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return err
	}
	return add(ctx, client, int(values[0]), int(values[1]), values[2], values[3])
}

func produce(ctx context.Context, pool *pgxpool.Pool) error {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	total := 0
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		wanted, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		if err := add(ctx, client, total, wanted, 0, 0); err != nil {
			return err
		}
		total += wanted
		fmt.Println("enqueued", total)
	}
	return nil
}

func work(ctx context.Context, pool *pgxpool.Pool) error {
	seen := &buffer{}
	config := settings()
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, seen)
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		}
	}()
	said, ticker := 0, time.NewTicker(10*time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if handled := seen.handled(); handled != said {
				said = handled
				fmt.Println("handled", said)
			}
			continue
		case <-ended:
		}
		break
	}
	if err := client.Stop(ctx); err != nil {
		return err
	}
	return seen.write(os.Getenv("PEER_RECORD"))
}

func run(ctx context.Context, verb string, numbers []string) error {
	pool, err := pgxpool.New(ctx, os.Getenv("PEER_DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	switch verb {
	case "setup":
		return setup(ctx, pool)
	case "enqueue":
		return enqueue(ctx, pool, numbers)
	case "produce":
		return produce(ctx, pool)
	case "work":
		return work(ctx, pool)
	}
	return fmt.Errorf("no such verb: %s", verb)
}

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}
