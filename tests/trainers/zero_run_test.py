"""Runs with ZeRO: the optimizer's state, gradients and parameters split over the ranks that share the data.

usage: zero_run_test.py EASYDEL
"""

from tiny_run import *

WIDE = ["--dtype", "fp64", "--param-dtype", "fp64", "--batch", 12]


class ZeroRun(TinyRun):
    def test_every_stage_trains_as_one_device(self):
        self.train("alone", *WIDE, steps=6)
        alone = load_file(self.folder / "alone" / "run-6" / "model.safetensors")
        for mesh, stage in (("4,1,1,1,1", 1), ("1,2,1,2,1", 1), ("2,1,1,1,2", 2), ("2,2,1,1,1", 2), ("1,3,1,1,1", 3)):
            self.remove("zero")
            self.train("zero", *WIDE, "--mesh", mesh, "--zero-stage", stage, steps=6)
            weights = load_file(self.folder / "zero" / "run-6" / "model.safetensors")
            for name, tensor in alone.items():
                torch.testing.assert_close(weights[name], tensor, rtol=1e-9, atol=1e-9, msg=f"{mesh} {stage} {name}")
            config = json.loads((self.folder / "zero" / "run-6" / "config.json").read_text())
            self.assertEqual(config["zero_stage"], stage)

    def test_a_run_goes_on_in_another_stage_on_another_mesh(self):
        self.train("alone", *WIDE, steps=12)
        self.train("changing", *WIDE, "--mesh", "4,1,1,1,1", "--zero-stage", 1, steps=4)
        self.train("changing", *WIDE, "--mesh", "1,2,1,1,1", "--zero-stage", 3, steps=6)
        self.train("changing", *WIDE, "--mesh", "3,1,1,1,1", "--zero-stage", 2, steps=8)
        self.train("changing", *WIDE, steps=10)
        self.train("changing", *WIDE, "--mesh", "2,1,1,2,1", "--zero-stage", 1, steps=12)
        for name in ("model.safetensors", "optimizer.safetensors"):
            ours, theirs = (load_file(self.folder / run / "run-12" / name) for run in ("changing", "alone"))
            self.assertEqual(ours.keys(), theirs.keys())
            for key, tensor in theirs.items():
                torch.testing.assert_close(ours[key], tensor, rtol=1e-9, atol=1e-9, msg=f"{name} {key}")

    def test_a_run_that_was_stopped_goes_on_bit_for_bit(self):
        for stage in (1, 2):
            arguments = ["--batch", 12, "--mesh", "3,1,1,1,1", "--zero-stage", stage, "--set", "ema_decay=0.9"]
            self.train(f"through-{stage}", *arguments, steps=8)
            self.train(f"halves-{stage}", *arguments, steps=4)
            self.train(f"halves-{stage}", *arguments, steps=8)
            self.same_weights(f"through-{stage}", f"halves-{stage}", 8)

    def test_moments_in_8_bits_are_the_same_on_every_mesh_and_after_a_checkpoint(self):
        narrow = [*WIDE, "--optimizer", "adamw_8bit"]
        self.train("narrow", *narrow, steps=6)
        saved = load_file(self.folder / "narrow" / "run-6" / "optimizer.safetensors")
        large = {name for name, tensor in saved.items() if tensor.dtype == torch.uint8}
        self.assertEqual({name.split("/")[-1] for name in large}, {"lm_head.weight"})
        for mesh, stage in (("4,1,1,1,1", 1), ("2,1,1,2,1", 2), ("1,2,1,2,1", 3)):
            self.remove("narrow-zero")
            self.train("narrow-zero", *narrow, "--mesh", mesh, "--zero-stage", stage, steps=2)
            self.train("narrow-zero", *narrow, steps=4)
            self.train("narrow-zero", *narrow, "--mesh", mesh, "--zero-stage", stage, steps=6)
            for name in ("model.safetensors", "optimizer.safetensors"):
                ours, theirs = (load_file(self.folder / run / "run-6" / name) for run in ("narrow-zero", "narrow"))
                self.assertEqual(ours.keys(), theirs.keys())
                for key, tensor in theirs.items():
                    torch.testing.assert_close(ours[key], tensor, rtol=1e-6, atol=1e-9, msg=f"{mesh} {name} {key}")
        self.train("narrow-halves", *narrow, steps=4)
        self.train("narrow-halves", *narrow, steps=6)
        self.same_weights("narrow", "narrow-halves", 6)

    def test_adapters_train_in_every_stage(self):
        lora = [*WIDE, "--lora-rank", 4]
        self.train("adapted", *lora, steps=4)
        for stage in (1, 2):
            self.remove("adapted-zero")
            self.train("adapted-zero", *lora, "--mesh", "2,2,1,1,1", "--zero-stage", stage, steps=4)
            for one, other in zip(self.curve("adapted"), self.curve("adapted-zero")):
                self.assertAlmostEqual(one, other, delta=1e-9)

    def test_what_makes_no_sense_is_refused(self):
        self.assertIn("zero_stage must be 1, 2 or 3; got 5.", self.fails("refused", "--zero-stage", 5))
        self.assertIn("zero_stage is not supported with auto_shard_model: false; got 1. Leave auto_shard_model out.",
                      self.fails("refused", "--zero-stage", 1, "--set", "sharding.auto_shard_model=false"))
        self.assertIn("[shard_model] zero_stage 3 splits parameters over fsdp and sp; got a mesh without them, "
                      "dp=2 fsdp=1 ep=1 tp=1 sp=1. Give fsdp the devices of dp, or use zero_stage 1 or 2.",
                      self.fails("refused", "--zero-stage", 3, "--mesh", "2,1,1,1,1"))


if __name__ == "__main__":
    unittest.main()
