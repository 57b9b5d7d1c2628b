"""A run that is killed again and again ends where the one that was left alone does.

usage: killed_run_test.py KILL_AT EASYDEL, the first of them tests/support/kill_at.cpp as a library.
"""

import math
import unittest

from tiny_run import *

KILL_AT = sys.argv.pop()
STEPS = 30 * math.ceil(DRAWS / 10)  # three for each kill: a fast machine is killed later
MESHES = [[], ["--mesh", "1,2,1,2,1"], ["--mesh", "2,1,1,1,2"], ["--mesh", "1,1,1,4,1"], ["--mesh", "4,1,1,1,1"]]

ZERO = [["--mesh", "4,1,1,1,1", "--zero-stage", 1], ["--mesh", "1,2,1,2,1", "--zero-stage", 1],
        ["--mesh", "2,1,1,1,2", "--zero-stage", 2]]


def fnv(ids):
    value = 2166136261
    for token in ids:
        value = (value ^ token) * 16777619 % 2**32
    return value


class KilledRun(TinyRun):
    kills = unfinished = 0

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        print(f"{cls.kills} kills in all; {cls.unfinished} left an unfinished checkpoint behind", file=sys.stderr)

    def kill_often(self, output, arguments, kills, seed):
        """Runs it until it was killed so often, each time at a call that changes a file or a moment after it. Returns how
        many kills there were, and how many of them left an unfinished checkpoint behind."""
        draw = random.Random(seed)
        unfinished = 0
        for done in range(kills):
            moment = {"LD_PRELOAD": KILL_AT, "KILL_AT": str(draw.randint(1, 110)),
                      "KILL_AFTER_US": str(draw.choice([0, 0, draw.randint(1, 30000)])),
                      "ASAN_OPTIONS": "verify_asan_link_order=0"}
            process = self.start(output, *arguments(), steps=STEPS, environment=moment)
            _, err = process.communicate(timeout=120)
            if process.returncode == 0:
                return done, unfinished
            self.assertEqual(process.returncode, -signal.SIGKILL, err)
            unfinished += bool(list((self.folder / output).glob(".run-*.unfinished")))
        return kills, unfinished

    def compare(self, name, *arguments, arguments_of=None, exact=True, kills=DRAWS):
        with self.subTest(name):
            self.train(f"{name}-whole", *arguments, steps=STEPS)
            done, unfinished = self.kill_often(f"{name}-killed", arguments_of or (lambda: arguments), kills, name)
            KilledRun.kills += done
            KilledRun.unfinished += unfinished
            self.assertGreaterEqual(done, kills * 3 // 4, "the run was too fast to be killed so often")
            self.assertGreater(unfinished, 0, "no kill hit a save")
            result = self.train(f"{name}-killed", *arguments, steps=STEPS)
            self.assertEqual((result["step"], result["stopped_by"]), (STEPS, "steps"))
            (whole, evaluated), (killed, evaluated_again) = self.log(f"{name}-whole"), self.log(f"{name}-killed")
            self.assertEqual(list(whole), list(range(1, STEPS + 1)))
            self.assertEqual(list(killed), list(whole))
            for step in whole:
                self.assertEqual(killed[step]["batch_checksum"], whole[step]["batch_checksum"], f"step {step}")
                if exact:
                    self.assertEqual(killed[step]["loss"], whole[step]["loss"], f"step {step}")
                else:
                    self.assertAlmostEqual(killed[step]["loss"], whole[step]["loss"], delta=1e-4, msg=f"step {step}")
            self.assertEqual(list(evaluated_again), list(evaluated))
            for step in evaluated:
                for key, value in ((key, value) for key, value in evaluated[step].items() if key.startswith("eval_")):
                    self.assertAlmostEqual(evaluated_again[step][key], value, delta=0 if exact else 1e-3 * max(1, abs(value)))
            if exact:
                self.same_weights(f"{name}-whole", f"{name}-killed", STEPS)
            else:  # ranks add in another order
                self.assertLess(self.largest_weight_difference(f"{name}-whole", f"{name}-killed", STEPS), 1e-4)
            leftover = [path.name for path in (self.folder / f"{name}-killed").iterdir() if path.name.startswith(".")]
            self.assertEqual(leftover, [])
            return whole

    def test_shuffled_from_two_files_with_accumulation_and_an_average(self):
        whole = self.compare("accumulated", "--accumulate", 2, "--set", "save_total_limit=3", "--set", "ema_decay=0.9")
        self.assertEqual(self.checkpoints("accumulated-killed"), [STEPS - 4, STEPS - 2, STEPS])
        # Every row once in each epoch of ten steps, as transformers reads it, and every epoch in an order of its own.
        rows = [self.ids(text) for text in self.texts[:40]]
        sums = [whole[step]["batch_checksum"] for step in whole]
        for epoch in range(STEPS // 10):
            self.assertEqual(sum(sums[epoch * 10:epoch * 10 + 10]), sum(map(fnv, rows)), f"epoch {epoch}")
        self.assertEqual(len(set(sums)), STEPS)

    def test_packed_and_saved_at_once(self):
        self.compare("packed", "--packing", "--set", "async_save=false", "--scheduler", "cosine", "--warmup", 5)

    def test_on_changing_meshes(self):
        draw = random.Random(7)
        slow = ["--learning-rate", "1e-3"]  # with a large one the last bits of a sum become large in a hundred steps
        self.compare("meshes", *slow, arguments_of=lambda: [*draw.choice(MESHES), *slow], exact=False)
        self.compare("mesh", "--mesh", "1,2,1,2,1", "--set", "save_total_limit=1", kills=DRAWS // 4)

    def test_packed_evaluated_adapters_on_changing_meshes(self):
        everything = ["--packing", "--lora-rank", 4, "--eval-data", self.folder / "held_out.jsonl", "--eval-steps", 3, "--set",
                      "save_total_limit=2"]
        self.compare("adapters", *everything, kills=DRAWS // 4)
        draw = random.Random(9)
        self.compare("adapters-meshes", *everything, "--learning-rate", "1e-3", exact=False, kills=DRAWS // 4,
                     arguments_of=lambda: [*draw.choice(MESHES), *everything, "--learning-rate", "1e-3"])

    def test_packed_with_the_optimizer_split_over_ranks(self):
        packed = ["--packing", "--set", "ema_decay=0.9", "--learning-rate", "1e-3"]
        self.compare("zero", *packed, *ZERO[0], kills=DRAWS // 4)
        draw = random.Random(11)
        self.compare("zero-meshes", *packed, exact=False, kills=DRAWS // 4,
                     arguments_of=lambda: [*draw.choice(MESHES + ZERO), *packed])


if __name__ == "__main__":
    unittest.main()
