// Package journal is the record of a run on disk and the way back from it. The
// executor's events go into <project>/.herd/runs/<id>/ through a Writer; the
// verbs that look at a run (ps, show, logs, rerun) read that folder with a
// Reader and nothing else, so they work from another terminal, after a crash,
// and on a run of long ago.
//
//	journal.jsonl                    every event but the bulk below: the truth
//	logs/<job>/<step>.log            the step's output, as the redactor left it
//	transcripts/<job>/<step>.jsonl   what its agent said and did
//	given.json                       what it was started with, for a rerun
//	summary.md                       the run's step summary
//	lock                             locked as long as the run's process lives
package journal
