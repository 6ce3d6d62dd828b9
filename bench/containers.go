package main

import (
	"context"
	"fmt"
	"time"

	"github.com/docker/docker/client"
	"github.com/sourcegraph/conc/pool"
)

// atOnce is how many containers the engine is asked for at a time: more buy
// little.
const atOnce = 4

// inBoxes sends every step to a box without a network.
func (b *bench) inBoxes() string {
	return fmt.Sprintf("defaults: {docker: {image: %s, network: none}}\n", b.image)
}

// containers measures one and fifty container steps against the engine's own
// calls with the same settings.
func containers(ctx context.Context, b *bench) error {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	defer c.Close()
	e := &engine{client: c, image: b.image, workspace: b.dir}
	t := newTable("Container steps (`true`, hardened, no network), ms", "", "1 step", "50 wide", "50 steps of one job")
	defer t.end()

	raw := map[string][2]time.Duration{}
	for _, network := range []string{"none", "joined"} {
		one, fifty, err := e.oneAndFifty(ctx, network)
		if err != nil {
			return err
		}
		raw[network] = [2]time.Duration{one, fifty}
		t.row("the engine's API, "+network, ms(one), ms(fifty), "–")
	}

	var got [3]time.Duration
	for i, workflow := range []string{
		jobs(shape{n: 1}, b.inBoxes()),
		jobs(shape{n: 50}, b.inBoxes()),
		b.inBoxes() + stepsOfOneJob(50, "true"),
	} {
		cmd, err := b.herdRun("boxes", workflow)
		if err != nil {
			return err
		}
		s, err := measure(ctx, []int{9, 3, 5}[i], cmd)
		if err != nil {
			return err
		}
		got[i] = s.wall
	}
	t.row("herd-runner", ms(got[0]), ms(got[1]), ms(got[2]))
	// 230, 4,200 and 500 ms where the engine's own calls take 175 and 5,800.
	none := raw["none"]
	t.row("× engine, none", b.against(got[0], none[0], 1.31), b.against(got[1], none[1], 0.72), b.against(got[2], none[0], 2.86))
	t.row("× engine, joined", ratio(got[0], raw["joined"][0]), ratio(got[1], raw["joined"][1]), ratio(got[2], raw["joined"][0]))
	return nil
}

// warm measures a process in a box that runs already.
func warm(ctx context.Context, b *bench) error {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	defer c.Close()
	e := &engine{client: c, image: b.image, workspace: b.dir}
	t := newTable("A process in a box that runs already, ms", "", "ms", "× docker exec")
	defer t.end()
	exec, err := e.execTime(ctx)
	if err != nil {
		return err
	}
	t.row("docker exec (API)", ms(exec), "1")

	// From outside: what each further step of a job costs, the runner's own
	// work for it (shell, journal, expressions) included.
	const few, many = 1, 201
	var took [2]time.Duration
	for i, n := range []int{few, many} {
		cmd, err := b.herdRun("warm", b.inBoxes()+stepsOfOneJob(n, "true"))
		if err != nil {
			return err
		}
		s, err := measure(ctx, 5, cmd)
		if err != nil {
			return err
		}
		took[i] = s.wall
	}
	step := (took[1] - took[0]) / (many - few)
	t.row("herd-runner, a further step of a job", ms(step), b.against(step, exec, 0.1))
	return nil
}

// oneAndFifty is the time of one container from create to remove, and of fifty.
func (e *engine) oneAndFifty(ctx context.Context, network string) (one, fifty time.Duration, err error) {
	modes := make(chan string, atOnce)
	for range atOnce {
		mode := network
		if network == "joined" {
			id, err := e.idle(ctx)
			if err != nil {
				return 0, 0, err
			}
			defer e.remove(id)
			mode = "container:" + id
		}
		modes <- mode
	}
	batch := func(n int) (time.Duration, error) {
		start := time.Now()
		p := pool.New().WithErrors().WithMaxGoroutines(atOnce)
		for range n {
			p.Go(func() error {
				mode := <-modes
				defer func() { modes <- mode }()
				return e.whole(ctx, mode)
			})
		}
		err := p.Wait()
		return time.Since(start), err
	}
	if one, err = median(9, func() (time.Duration, error) { return batch(1) }); err != nil {
		return 0, 0, err
	}
	fifty, err = median(3, func() (time.Duration, error) { return batch(50) })
	return one, fifty, err
}
